//! What the promises know of an engine.

pub use qjam::engine::Caps;
use qjam::{Builder, Master};

/// An engine as the promises see it.
pub struct Engine {
    /// The first part of the names of its tests.
    pub name: &'static str,
    /// What its workers can do.
    pub caps: Caps,
    /// Process numbers of those of a master's workers that may be killed and stopped, where there are any.
    pub victims: Option<fn(&Master) -> Vec<u32>>,
    /// Whether functions are told of the end of their round ([`qjam::Ctx::cancelled`]).
    pub hears_cancel: bool,
    /// Whether values may be handed over as they are, without having been bytes in between.
    pub hands_over: bool,
    /// Whether a round may get fewer slots than there are.
    pub chooses: bool,
    shapes: Vec<String>,
    of: fn(usize) -> String,
    connect: Connect,
}

/// How a master gets its workers: by settings and a worker string.
pub type Connect = fn(Builder, &str) -> qjam::Result<Master>;

impl Engine {
    /// One with these worker strings; and what is written for so many workers of one slot each. What it can do is asked of a
    /// master of it.
    pub fn new(name: &'static str, shapes: &[&str], of: fn(usize) -> String) -> Engine {
        Engine::with(name, shapes, of, |builder, shape| builder.connect(shape))
    }

    /// The same for workers that no worker string names: how a master gets them is said, too.
    pub fn with(name: &'static str, shapes: &[&str], of: fn(usize) -> String, connect: Connect) -> Engine {
        let shapes: Vec<String> = shapes.iter().map(|shape| (*shape).to_owned()).collect();
        let caps = connect(Master::builder(), &shapes[0]).expect("workers").caps();
        Engine {
            name,
            caps,
            victims: None,
            hears_cancel: true,
            hands_over: caps.in_process,
            chooses: false,
            shapes,
            of,
            connect,
        }
    }

    /// The same, with workers that may be killed.
    #[must_use]
    pub fn victims(mut self, of: fn(&Master) -> Vec<u32>) -> Engine {
        self.victims = Some(of);
        self
    }

    /// The same; rounds may be run where the caller is.
    #[must_use]
    pub fn hands_over(mut self) -> Engine {
        self.hands_over = true;
        self
    }

    /// The same; how many of the slots a round gets is chosen for it, the caller's thread among the choices.
    #[must_use]
    pub fn chooses(mut self) -> Engine {
        self.chooses = true;
        self.hands_over()
    }

    /// The same; functions do not hear of the end of their round.
    #[must_use]
    pub fn hears_no_cancel(mut self) -> Engine {
        self.hears_cancel = false;
        self
    }

    /// Worker strings of every shape there is.
    pub fn shapes(&self) -> impl Iterator<Item = &str> {
        self.shapes.iter().map(String::as_str)
    }

    /// The same without the widest: for what does not depend on how many there are.
    pub fn few(&self) -> impl Iterator<Item = &str> {
        self.shapes().filter(|shape| !shape.ends_with(":8"))
    }

    /// Workers of one slot each, so many if the engine lets us choose.
    pub fn of(&self, workers: usize) -> String {
        (self.of)(workers)
    }

    /// A master with these settings and workers.
    pub fn connect(&self, builder: Builder, shape: &str) -> Master {
        (self.connect)(builder, shape).unwrap_or_else(|e| panic!("{shape}: {e}"))
    }

    /// A master of so many.
    pub(crate) fn master(&self, workers: usize) -> Master {
        self.connect(self.quiet(), &self.of(workers))
    }

    /// A builder whose master tells nobody what workers print.
    pub(crate) fn quiet(&self) -> Builder {
        Master::builder().on_log(|_| {})
    }

    /// Processes of a master's workers that may be killed.
    pub(crate) fn pids(&self, m: &Master) -> Vec<u32> {
        (self.victims.expect("an engine whose workers may be killed"))(m)
    }
}
