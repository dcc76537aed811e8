//! The tree over chunk indices, and a partial reduction along it.
//!
//! A [`Node`] (level, index) stands for the chunks `[index << level, (index + 1) << level)`, cut off at the number of
//! chunks. Its value is `merge(left child, right child)`, or the left child's alone where the right one is empty.
//! Every set of workers, and a serial run, uses this tree; so all get the same bits.
//!
//! ```text
//!   level 2            (2,0)
//!                     /     \
//!   level 1       (1,0)     (1,1)
//!                 /   \       |         5 chunks would add (2,1) = (1,2) = (0,4)
//!   level 0    (0,0) (0,1)  (0,2)       and a root (3,0)
//! ```
//!
//! A [`Tree`] takes finished nodes in any order and merges siblings as soon as both are there.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// An aligned subtree: all chunks whose index, shifted right by `level`, is `index`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Node {
    /// Height above the chunks; level 0 is one chunk.
    pub level: u8,
    /// Position among the nodes of this level.
    pub index: u32,
}

/// How many chunks there are and how they are grouped into blocks: block `b` is the node `(level, b)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cut {
    /// Number of chunks.
    pub chunks: u32,
    /// Level of the blocks.
    pub level: u8,
}

impl Cut {
    /// A cut with blocks of `1 << level` chunks.
    pub fn new(chunks: u32, level: u8) -> Self {
        assert!(level < 32, "a block of 2^{level} chunks");
        Cut { chunks, level }
    }

    /// Whether the cut is valid. A cut from outside must be checked before use.
    pub fn is_possible(&self) -> bool {
        self.chunks > 0 && self.level < 32
    }

    /// Number of blocks.
    pub fn blocks(&self) -> u32 {
        // In 64 bits: 2^level may not fit beside the chunks in 32.
        u64::from(self.chunks).div_ceil(1 << self.level) as u32
    }

    /// The node of a block.
    pub fn node(&self, block: u32) -> Node {
        Node { level: self.level, index: block }
    }

    /// The chunks of a node.
    pub fn chunks_of(&self, node: Node) -> Range<u32> {
        let at = |index: u64| (index << node.level).min(u64::from(self.chunks)) as u32;
        at(u64::from(node.index))..at(u64::from(node.index) + 1)
    }

    /// The blocks under a node; empty for a node below the blocks or outside the tree.
    pub fn blocks_of(&self, node: Node) -> Range<u32> {
        let is_inside = (self.level..=self.root().level).contains(&node.level);
        let Some(up) = node.level.checked_sub(self.level).filter(|_| is_inside) else { return 0..0 };
        let at = |index: u64| (index << up).min(u64::from(self.blocks())) as u32;
        at(u64::from(node.index))..at(u64::from(node.index) + 1)
    }

    /// The node above everything.
    pub fn root(&self) -> Node {
        let level = u32::BITS - self.chunks.saturating_sub(1).leading_zeros();
        Node { level: (level as u8).max(self.level), index: 0 }
    }

    /// The neighbour a node is merged with, if that has any chunks.
    pub fn sibling(&self, node: Node) -> Option<Node> {
        let sibling = Node { level: node.level, index: node.index ^ 1 };
        (!self.chunks_of(sibling).is_empty()).then_some(sibling)
    }

    /// The largest node that has the same chunks: where the right child is empty, the parent is the same thing.
    pub fn lift(&self, mut node: Node) -> Node {
        while node != self.root() && self.sibling(node).is_none() {
            node = node.parent();
        }
        node
    }
}

impl Node {
    /// The node above.
    pub fn parent(self) -> Node {
        Node { level: self.level + 1, index: self.index >> 1 }
    }

    /// Whether this is the left of its parent's children.
    pub fn is_left(self) -> bool {
        self.index & 1 == 0
    }
}

/// What the caller of [`Tree::offer`] must do next.
#[derive(Debug, PartialEq)]
pub enum Offer<P> {
    /// The value was stored; its sibling has not arrived yet.
    Kept,
    /// The sibling was there: merge the two and offer the result as `node`.
    Merge {
        /// The parent of the two.
        node: Node,
        /// The left child's value.
        left: P,
        /// The right child's value.
        right: P,
    },
}

/// A partial reduction: the values of disjoint, maximal finished subtrees.
///
/// ```
/// use qjam_core::reduce::{Cut, Tree};
/// let cut = Cut::new(3, 0);
/// let mut tree = Tree::new(cut);
/// let join = |left: &mut String, right: String| { *left = format!("({left} {right})"); Ok::<_, ()>(()) };
/// for block in [2, 0, 1] {
///     tree.insert(cut.node(block), block.to_string(), join).unwrap();
/// }
/// assert_eq!(tree.take_root().unwrap(), "((0 1) 2)");
/// ```
#[derive(Debug)]
pub struct Tree<P> {
    cut: Cut,
    held: BTreeMap<Node, P>,
    /// Nodes that are not merged with their neighbours.
    apart: BTreeSet<Node>,
}

impl<P> Tree<P> {
    /// An empty tree.
    pub fn new(cut: Cut) -> Self {
        Tree { cut, held: BTreeMap::new(), apart: BTreeSet::new() }
    }

    /// Keeps a node separate from now on: it is not merged with its neighbour, unless it already has been.
    pub fn set_apart(&mut self, node: Node) {
        self.apart.insert(self.cut.lift(node));
    }

    /// Puts a finished node in, or hands it back with its sibling to be merged. The merge is left to the caller so
    /// that several threads can share a locked tree and merge outside the lock.
    pub fn offer(&mut self, node: Node, value: P) -> Offer<P> {
        let node = self.cut.lift(node);
        if node != self.cut.root() {
            let sibling = Node { level: node.level, index: node.index ^ 1 };
            let merges = !self.apart.contains(&node) && !self.apart.contains(&sibling);
            if let Some(other) = merges.then(|| self.held.remove(&sibling)).flatten() {
                let (left, right) = if node.is_left() { (value, other) } else { (other, value) };
                return Offer::Merge { node: node.parent(), left, right };
            }
        }
        let old = self.held.insert(node, value);
        assert!(old.is_none(), "{node:?} was finished twice");
        Offer::Kept
    }

    /// Puts a finished node in and merges upwards as far as it goes.
    pub fn insert<E>(
        &mut self,
        node: Node,
        value: P,
        mut merge: impl FnMut(&mut P, P) -> Result<(), E>,
    ) -> Result<(), E> {
        let (mut node, mut value) = (node, value);
        while let Offer::Merge { node: up, mut left, right } = self.offer(node, value) {
            merge(&mut left, right)?;
            (node, value) = (up, left);
        }
        Ok(())
    }

    /// Number of values held.
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// Whether nothing is held.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Takes the finished subtrees out, in order of their chunks.
    pub fn take(&mut self) -> Vec<(Node, P)> {
        let cut = self.cut;
        let mut parts: Vec<_> = std::mem::take(&mut self.held).into_iter().collect();
        parts.sort_by_key(|(node, _)| cut.chunks_of(*node).start);
        parts
    }

    /// The final value, once the whole tree is merged.
    pub fn take_root(&mut self) -> Option<P> {
        self.held.remove(&self.cut.root())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(cut: Cut, order: &[u32]) -> String {
        let mut tree = Tree::new(cut);
        for &block in order {
            let chunks: Vec<String> = cut.chunks_of(cut.node(block)).map(|c| c.to_string()).collect();
            // Within a block the same tree is walked over its chunks.
            let mut inner = Tree::new(Cut::new(cut.chunks, 0));
            for (c, name) in cut.chunks_of(cut.node(block)).zip(chunks) {
                inner.insert(Node { level: 0, index: c }, name, join).unwrap();
            }
            let mut parts = inner.take();
            assert_eq!(parts.len(), 1, "a block is one subtree");
            tree.insert(cut.node(block), parts.remove(0).1, join).unwrap();
        }
        tree.take_root().unwrap()
    }

    fn join(left: &mut String, right: String) -> Result<(), ()> {
        *left = format!("({left} {right})");
        Ok(())
    }

    #[test]
    fn order_of_arrival_and_size_of_blocks_do_not_change_the_tree() {
        for chunks in 1..40 {
            let serial = text(Cut::new(chunks, 0), &(0..chunks).collect::<Vec<_>>());
            for level in 0..7 {
                let cut = Cut::new(chunks, level);
                let n = cut.blocks();
                for turn in 0..n {
                    let order: Vec<u32> = (0..n).map(|i| (i * 7 + turn) % n).collect();
                    let distinct: std::collections::BTreeSet<_> = order.iter().collect();
                    if distinct.len() == n as usize {
                        assert_eq!(text(cut, &order), serial, "{chunks} chunks, level {level}");
                    }
                }
            }
        }
    }

    #[test]
    fn blocks_of_a_node_cover_its_chunks() {
        for chunks in 1..70 {
            for level in 0..8 {
                let cut = Cut::new(chunks, level);
                assert_eq!(cut.blocks_of(cut.root()), 0..cut.blocks());
                assert_eq!(cut.chunks_of(cut.root()), 0..chunks);
                assert!(cut.blocks_of(Node { level: 40, index: 9 }).is_empty());
                assert!(cut.blocks_of(cut.root().parent()).is_empty(), "there is nothing above the root");
            }
        }
    }

    #[test]
    fn a_node_without_a_right_neighbour_is_its_parent() {
        let cut = Cut::new(5, 0);
        assert_eq!(cut.lift(Node { level: 0, index: 4 }), Node { level: 2, index: 1 });
        assert_eq!(cut.lift(Node { level: 0, index: 0 }), Node { level: 0, index: 0 });
        assert_eq!(cut.lift(Node { level: 3, index: 0 }), Node { level: 3, index: 0 });
    }

    #[test]
    fn a_node_that_is_set_apart_is_never_merged() {
        for chunks in 1..20 {
            let cut = Cut::new(chunks, 0);
            for apart in 0..chunks {
                let mut tree = Tree::new(cut);
                tree.set_apart(cut.node(apart));
                for block in (0..chunks).rev() {
                    tree.insert(cut.node(block), block.to_string(), join).unwrap();
                }
                let parts = tree.take();
                let own = parts.iter().find(|(node, _)| cut.chunks_of(*node).contains(&apart)).unwrap();
                assert_eq!(own.1, apart.to_string());
                let covered: usize = parts.iter().map(|(node, _)| cut.chunks_of(*node).len()).sum();
                assert_eq!(covered, chunks as usize, "the others are all there");
            }
        }
    }

    #[test]
    #[should_panic(expected = "finished twice")]
    fn a_node_cannot_be_finished_twice() {
        let mut tree = Tree::new(Cut::new(4, 0));
        assert_eq!(tree.offer(Node { level: 0, index: 0 }, 1), Offer::Kept);
        tree.offer(Node { level: 0, index: 0 }, 1);
    }
}
