//! Archives and compressed files, as other programs write them.

use std::io::Write;

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(bytes).unwrap();
    gz.finish().unwrap()
}

/// The content of a member of an archive, compressed.
pub(crate) fn deflate(bytes: &[u8]) -> Vec<u8> {
    let mut packed = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(bytes).unwrap();
    packed.finish().unwrap()
}

/// A zip archive with these members: name, method, content as it is, and as it is packed.
pub(crate) fn zip(members: &[(&str, u16, Vec<u8>, Vec<u8>)]) -> Vec<u8> {
    let (mut file, mut list) = (Vec::new(), Vec::new());
    for (name, method, content, packed) in members {
        let at = file.len() as u32;
        let mut crc = flate2::Crc::new();
        crc.update(content);
        let mut common = vec![20, 0, 0, 0];
        common.extend(method.to_le_bytes());
        common.extend([0; 4]);
        common.extend(crc.sum().to_le_bytes());
        common.extend((packed.len() as u32).to_le_bytes());
        common.extend((content.len() as u32).to_le_bytes());
        common.extend((name.len() as u16).to_le_bytes());
        common.extend([0, 0]);
        file.extend(b"PK\x03\x04");
        file.extend(&common);
        file.extend(name.as_bytes());
        file.extend(packed);
        list.extend(b"PK\x01\x02\x14\x00");
        list.extend(&common);
        list.extend([0; 10]);
        list.extend(at.to_le_bytes());
        list.extend(name.as_bytes());
    }
    let at = file.len() as u32;
    file.extend(&list);
    file.extend(b"PK\x05\x06\0\0\0\0");
    file.extend([members.len() as u8, 0, members.len() as u8, 0]);
    file.extend((list.len() as u32).to_le_bytes());
    file.extend(at.to_le_bytes());
    file.extend([0, 0]);
    file
}

pub(crate) fn npy(descr: &str, shape: &str, values: &[u8]) -> Vec<u8> {
    let text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n");
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend((text.len() as u16).to_le_bytes());
    file.extend(text.as_bytes());
    file.extend(values);
    file
}
