//! Pictures of few colours as PNG files (ISO/IEC 15948): one byte or one bit for each pixel, and a palette.

/// zlib's level: small pictures, so the best that is still quick.
const LEVEL: u8 = 8;

/// The eight bytes at the start of every file.
const SIGNATURE: &[u8] = b"\x89PNG\r\n\x1a\n";

/// The colour type "index into a palette".
const INDEXED: u8 = 3;

/// How many bits of a row stand for one pixel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(dead_code, reason = "each of the tools that share this file uses one of them")]
pub(crate) enum Depth {
    /// Two colours.
    One = 1,
    /// At most 256 colours.
    Eight = 8,
}

/// A picture as indices into a palette of red, green and blue; rows follow each other without a gap, and each begins
/// with a new byte.
pub(crate) struct Picture<'a> {
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) depth: Depth,
    pub(crate) palette: &'a [[u8; 3]],
    pub(crate) pixels: &'a [u8],
}

impl Picture<'_> {
    /// The file.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut file = SIGNATURE.to_vec();
        let mut header = [self.width.to_be_bytes(), self.height.to_be_bytes()].concat();
        // Compression, filter and interlace methods have only, or the plain, value 0.
        header.extend([self.depth as u8, INDEXED, 0, 0, 0]);
        chunk(&mut file, *b"IHDR", &header);
        chunk(&mut file, *b"PLTE", self.palette.as_flattened());
        chunk(&mut file, *b"IDAT", &miniz_oxide::deflate::compress_to_vec_zlib(&self.filtered(), LEVEL));
        chunk(&mut file, *b"IEND", &[]);
        file
    }

    /// Every row after the byte 0: not filtered, which is best for indices.
    fn filtered(&self) -> Vec<u8> {
        let bits = self.width as usize * self.depth as usize;
        let row = bits.div_ceil(8).max(1);
        self.pixels.chunks(row).flat_map(|row| std::iter::once(&0).chain(row)).copied().collect()
    }
}

fn chunk(file: &mut Vec<u8>, kind: [u8; 4], data: &[u8]) {
    file.extend(u32::try_from(data.len()).unwrap_or(u32::MAX).to_be_bytes());
    let start = file.len();
    file.extend(kind);
    file.extend(data);
    let sum = crc32(file.get(start..).unwrap_or_default());
    file.extend(sum.to_be_bytes());
}

/// The sum of annex D of the standard, bit by bit: the pictures are small.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| (sum >> 1) ^ if sum & 1 == 1 { 0xedb8_8320 } else { 0 })
    })
}
