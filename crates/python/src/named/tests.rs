//! What the machine finds in pickles, written here instruction by instruction.

use super::*;

fn named(pickle: &[u8]) -> Vec<(String, String, u8)> {
    names_in(pickle).unwrap().into_iter().map(|n| (n.module, n.name, n.uses)).collect()
}

fn text(text: &str) -> Vec<u8> {
    [&[0x8c, text.len() as u8], text.as_bytes()].concat()
}

fn stream(parts: &[&[u8]]) -> Vec<u8> {
    [&[0x80, 4][..], &parts.concat()].concat()
}

#[test]
fn plain_values_name_nothing() {
    // {"a": [1, 2.5, None], "b": b"xy"}, as Python 3.11 writes it.
    let pickle = b"\x80\x05\x95'\x00\x00\x00\x00\x00\x00\x00}\x94(\x8c\x01a\x94]\x94(K\x01G@\x04\x00\x00\x00\x00\x00\x00Ne\x8c\x01b\x94C\x02xy\x94u.";
    assert_eq!(names_in(pickle), Ok(Vec::new()));
}

#[test]
fn a_call_a_state_and_a_name_in_the_value_are_told_apart() {
    let pickle = stream(&[
        &text("os"),
        &text("system"),
        b"\x93",
        &text("true"),
        b"\x85R",
        &text("m"),
        &text("C"),
        b"\x93",
        b")\x81}b\x86.",
    ]);
    assert_eq!(named(&pickle), [("os".into(), "system".into(), CALL), ("m".into(), "C".into(), NEW | BUILD)]);
    let pickle = stream(&[b"(", &text("m"), &text("C"), b"\x93\x94h\x00l."]);
    assert!(names_in(&pickle).is_err(), "LIST is not written by protocol 4");
    let pickle = stream(&[b"](", &text("m"), &text("C"), b"\x93\x94h\x00e."]);
    assert_eq!(named(&pickle), [("m".into(), "C".into(), VALUE)]);
}

#[test]
fn the_name_of_a_script_s_class_is_the_text_it_is_called_with() {
    let function = [text("qjam._worker.scripts"), text("script_class"), vec![0x93]].concat();
    let pickle = stream(&[&function, &text("abc"), b"\x85R)\x81."]);
    let expected =
        [("qjam._worker.scripts".into(), "script_class".into(), CALL), (String::new(), "abc".into(), NEW)];
    assert_eq!(named(&pickle), expected);
}

#[test]
fn a_method_of_a_class_is_a_name() {
    let class = [text("zoneinfo"), text("ZoneInfo"), vec![0x93]].concat();
    let getattr = [text("builtins"), text("getattr"), vec![0x93]].concat();
    let pickle = stream(&[&getattr, &class, &text("_unpickle"), b"\x86R", &text("UTC"), b"K\x01\x86R."]);
    let uses: Vec<_> = named(&pickle).into_iter().map(|(_, name, uses)| (name, uses)).collect();
    assert_eq!(
        uses,
        [("getattr".into(), CALL), ("ZoneInfo".into(), LOOKUP), ("ZoneInfo._unpickle".into(), CALL)]
    );
    // Also where what was looked up is dropped, it was looked up.
    let pickle = stream(&[&getattr, &class, &text("x"), b"\x86R0N."]);
    assert_eq!(named(&pickle)[1], ("zoneinfo".into(), "ZoneInfo".into(), LOOKUP));
    for rest in [&b"]"[..], b"N", b"}"] {
        assert!(names_in(&stream(&[&getattr, rest, &text("append"), b"\x86R."])).is_err(), "{rest:?}");
    }
    let pickle = stream(&[&class, &text("x"), b"\x86."]);
    assert_eq!(named(&pickle), [("zoneinfo".into(), "ZoneInfo".into(), VALUE)]);
}

#[test]
fn names_are_few_and_short() {
    let getattr = [text("builtins"), text("getattr"), vec![0x93, 0x94, b'0']].concat();
    let mut parts = vec![getattr, text(&"x".repeat(250)), vec![0x94, b'0'], text("m"), text("C"), vec![0x93]];
    // The attribute of this name of the name so far, again and again.
    for n in 2..40u8 {
        parts.push(vec![0x94, b'0', b'h', 0, b'h', n, b'h', 1, 0x86, b'R']);
    }
    parts.push(b".".to_vec());
    let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
    assert_eq!(names_in(&stream(&parts)), Err("a pickle that names more than any of ours"));
    let name = |n: u32| [text("m"), text(&n.to_string()), vec![0x93, b'0']].concat();
    let many: Vec<u8> = (0..2000).flat_map(name).collect();
    assert_eq!(names_in(&stream(&[&many, b"N."])), Err("a pickle that names more than any of ours"));
}

#[test]
fn what_changes_a_class_or_calls_a_value_is_refused() {
    let class = [text("m"), text("C"), vec![0x93]].concat();
    for rest in [&b"}b."[..], b"(K\x01e.", b"K\x01a.", b"K\x01K\x02s.", b")R)R."] {
        assert!(names_in(&stream(&[&class, rest])).is_err(), "{rest:?}");
    }
    assert!(names_in(&stream(&[b"]}b."])).is_err());
}

#[test]
fn other_protocols_and_instructions_are_refused() {
    for pickle in [
        &b""[..],
        b"\x80",
        b"cos\nsystem\n(S'true'\ntR.",
        b"\x80\x02cos\nsystem\n.",
        b"\x80\x04cos\nsystem\n.",
    ] {
        assert!(names_in(pickle).is_err(), "{pickle:?}");
    }
    // PROTO in the middle, PERSID, EXT1, INST, OBJ, PUT.
    for rest in [&b"\x80\x02N."[..], b"P1\n.", b"\x82\x01.", b"(ios\nsystem\n.", b"(o.", b"Nq\x00."] {
        assert!(names_in(&stream(&[rest])).is_err(), "{rest:?}");
    }
}

#[test]
fn no_prefix_and_no_length_makes_it_fail() {
    let whole =
        stream(&[&text("m"), &text("C"), b"\x93", &text("x"), b"\x85R}", b"(", &text("k"), b"K\x01ub."]);
    assert!(names_in(&whole).is_ok());
    for length in 0..whole.len() {
        assert!(names_in(&whole[..length]).is_err());
    }
    for opcode in 0..=255u8 {
        let _ = names_in(&[&[0x80, 5, opcode][..], &[0xff; 16]].concat());
        let _ = names_in(&[&[0x80, 5, b'N', opcode][..], &[0xff; 16]].concat());
    }
}

#[test]
fn what_is_only_named_has_no_use() {
    let pickle = stream(&[&text("m"), &text("C"), b"\x930N."]);
    assert_eq!(named(&pickle), [("m".into(), "C".into(), 0)]);
}

fn name(module: &str, name: &str) -> Vec<u8> {
    [text(module), text(name), vec![0x93]].concat()
}

#[test]
fn native_objects_get_their_state_once_and_before_they_are_used() {
    let dtype = name("numpy", "dtype");
    let own = name("m", "C");
    for (class, is_refused) in [(&dtype, true), (&own, false)] {
        for rest in [
            // A second time.
            &b")R\x94}b}b."[..],
            // By a reference, after it was put into a list.
            b")R\x94](h\x00e0h\x00}b.",
            // After a reference to it was taken.
            b")R\x94h\x000}b.",
        ] {
            let found = names_in(&stream(&[class, rest]));
            assert_eq!(found.is_err(), is_refused, "{rest:?}");
        }
        assert!(names_in(&stream(&[class, b")R\x94}bh\x00\x86."])).is_ok());
    }
}

#[test]
fn what_is_made_empty_gets_its_state_before_it_is_used() {
    let empty = name("pandas._libs.arrays", "__pyx_unpickle_NDArrayBacked");
    assert!(names_in(&stream(&[&empty, b")R\x94}b."])).is_ok());
    for rest in [&b")R."[..], b")R\x85.", b")R\x94h\x000}b.", b")R](K\x01e\x86."] {
        assert_eq!(
            names_in(&stream(&[&empty, rest])),
            Err("a pickle that uses something before it has a state"),
            "{rest:?}"
        );
    }
}

#[test]
fn containers_are_filled_where_they_were_made() {
    // A list that has itself in it, and one that is filled by a reference.
    assert!(names_in(&stream(&[b"]\x94h\x00a."])).is_ok());
    assert!(names_in(&stream(&[b"]\x940h\x00K\x01a."])).is_err());
    assert!(names_in(&stream(&[b"}\x94]h\x00K\x01K\x02sa."])).is_err());
}

#[test]
fn what_python_could_not_end_or_hash_is_refused() {
    let deep = |count: usize| stream(&[b")", &b"\x85".repeat(count), b"."]);
    assert!(names_in(&deep(400)).is_ok());
    assert_eq!(names_in(&deep(1_000_000)), Err("a pickle that is nested too deeply"));
    // Lists may be as deep as they like.
    let lists = [b"]".repeat(100_000), b"a".repeat(99_999)].concat();
    assert!(names_in(&stream(&[&lists, b"."])).is_ok());
    // Objects of a class in Python, too; what was called may not.
    let own: Vec<u8> = name("m", "C").into_iter().chain(*b"\x940").collect();
    let chain = |make: &[u8]| {
        let objects = [&b"h\x00"[..], make, b"}", &text("a")].concat().repeat(2000);
        stream(&[&own, &objects, b"N", &b"sb".repeat(2000), b"."])
    };
    assert!(names_in(&chain(b")\x81")).is_ok());
    let called = [&b"h\x00)R"[..]].concat().repeat(2000);
    assert!(names_in(&stream(&[&own, &called, b"N", &b"a".repeat(2000), b"."])).is_err());
    let arrays: Vec<u8> = name("numpy", "dtype").into_iter().chain(*b"\x940").collect();
    let nested = [&b"h\x00)\x81"[..]].concat().repeat(2000);
    assert!(names_in(&stream(&[&arrays, &nested, b"N", &b"b".repeat(2000), b"."])).is_err());
    // Nor can the depth be hidden in a list that is filled later.
    let mut hidden = [b"]\x94".to_vec(), b")".to_vec(), b"\x85".repeat(400), b"a.".to_vec()];
    assert!(names_in(&stream(&hidden.iter().map(Vec::as_slice).collect::<Vec<_>>())).is_ok());
    hidden[0] = b"]\x94h\x00\x850".to_vec();
    assert!(names_in(&stream(&hidden.iter().map(Vec::as_slice).collect::<Vec<_>>())).is_err());
}

#[test]
fn keys_that_take_forever_to_hash_are_refused() {
    // Each tuple has the one before twice in it, or sixty times; the last one is a key.
    let twice = |count: u8| {
        let tuples: Vec<u8> = (0..count).flat_map(|n| [b'h', n, b'h', n, 0x86, 0x94, b'0']).collect();
        stream(&[b")\x940", &tuples, b"}h", &[count], b"Ns."])
    };
    assert!(names_in(&twice(10)).is_ok());
    assert_eq!(names_in(&twice(60)), Err("a pickle whose keys take too long to hash"));
    let value = |count: u8| [&twice(count)[..], b""].concat();
    let mut unhashed = value(60);
    unhashed.truncate(unhashed.len() - 5);
    unhashed.extend([b'h', 60, b'.']);
    assert!(names_in(&unhashed).is_ok(), "it is no key");
}

#[test]
fn calls_and_changes_of_native_objects_get_guards() {
    let dtype = name("numpy", "dtype");
    let own = name("m", "C");
    let guarded = |parts: &[&[u8]]| guarded(&stream(parts)).unwrap().stream;
    assert_eq!(guarded(&[b"]K\x01a."]), None);
    assert_eq!(guarded(&[&own, b")\x81}b."]), None, "a plain object");
    let expected = |parts: &[&[u8]]| Some(stream(parts));
    assert_eq!(guarded(&[&own, b")R."]), expected(&[&own, b")K\x00\x87Q."]));
    assert_eq!(guarded(&[&own, b"N\x85\x81."]), expected(&[&own, b"N\x85K\x01\x87Q."]));
    assert_eq!(guarded(&[&own, b")}\x92."]), expected(&[&own, b")}\x87K\x03\x86Q."]));
    assert_eq!(guarded(&[&own, b")\x81N}\x86b."]), expected(&[&own, b")\x81N}\x86K\x02\x87Q."]));
    assert_eq!(guarded(&[&own, b")R}b."]), expected(&[&own, b")K\x00\x87Q}K\x02\x87Q."]));
    assert_eq!(guarded(&[&dtype, b")\x81}b."]), expected(&[&dtype, b")\x81}K\x02\x87Q."]));
}

#[test]
fn frames_have_the_lengths_of_what_is_in_them() {
    let own = name("m", "C");
    let framed =
        |length: u64, parts: &[&[u8]]| [&[0x95][..], &length.to_le_bytes(), &parts.concat()].concat();
    let call = [&own[..], b")R0"].concat();
    let length = call.len() as u64;
    let pickle = stream(&[&framed(length, &[&call]), &call, &framed(2, &[b"N."])]);
    let with = [&own[..], b")K\x00\x87Q0"].concat();
    let expected = stream(&[&framed(length + 3, &[&with]), &with, &framed(2, &[b"N."])]);
    assert_eq!(guarded(&pickle).unwrap().stream, Some(expected));
    // False lengths become true ones.
    for claimed in [0, 1, length - 1, length + 1, u64::MAX >> 1, u64::MAX] {
        let pickle = stream(&[&framed(claimed, &[&call]), b"N."]);
        let stream = guarded(&pickle).unwrap().stream.unwrap();
        let inside = u64::from_le_bytes(stream[3..11].try_into().unwrap());
        assert!(inside <= stream.len() as u64 - 11, "{claimed}: {inside} of {}", stream.len());
    }
}

#[test]
fn guards_are_not_taken_from_outside() {
    let own = name("m", "C");
    let stream = guarded(&stream(&[&own, b")R."])).unwrap().stream.unwrap();
    assert!(names_in(&stream).is_err());
}
