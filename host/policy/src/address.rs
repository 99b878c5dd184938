//! Which addresses belong to the world outside. Everything else is the operator's own: this machine, its network, the
//! metadata service of its cloud.
//!
//! The ranges are those of the IANA special-purpose registries (RFC 6890 and what was added since), and a few that clouds
//! use for themselves.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Ranges of IPv4 that are not the world outside.
const PRIVATE_V4: [(Ipv4Addr, u32); 16] = [
    // This network (RFC 791).
    (Ipv4Addr::new(0, 0, 0, 0), 8),
    // Private use (RFC 1918).
    (Ipv4Addr::new(10, 0, 0, 0), 8),
    // Between a carrier and its customers (RFC 6598); 100.100.100.200 is a metadata service.
    (Ipv4Addr::new(100, 64, 0, 0), 10),
    // This machine (RFC 1122).
    (Ipv4Addr::new(127, 0, 0, 0), 8),
    // Link-local (RFC 3927); 169.254.169.254 is the metadata service of most clouds.
    (Ipv4Addr::new(169, 254, 0, 0), 16),
    (Ipv4Addr::new(172, 16, 0, 0), 12),
    // Assignments of protocols (RFC 6890); 192.0.0.192 is a metadata service.
    (Ipv4Addr::new(192, 0, 0, 0), 24),
    // Documentation (RFC 5737).
    (Ipv4Addr::new(192, 0, 2, 0), 24),
    // Relays from IPv6 to IPv4, given up (RFC 7526).
    (Ipv4Addr::new(192, 88, 99, 0), 24),
    (Ipv4Addr::new(192, 168, 0, 0), 16),
    // Benchmarks (RFC 2544).
    (Ipv4Addr::new(198, 18, 0, 0), 15),
    (Ipv4Addr::new(198, 51, 100, 0), 24),
    (Ipv4Addr::new(203, 0, 113, 0), 24),
    // Multicast (RFC 5771).
    (Ipv4Addr::new(224, 0, 0, 0), 4),
    // Reserved, and broadcast (RFC 1112, RFC 919).
    (Ipv4Addr::new(240, 0, 0, 0), 4),
    // The host of a virtual machine in Azure.
    (Ipv4Addr::new(168, 63, 129, 16), 32),
];

/// The only addresses of IPv6 that are routed in the world (RFC 4291).
const GLOBAL_V6: (Ipv6Addr, u32) = (Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);

/// Ranges within [`GLOBAL_V6`] that are not the world outside.
const PRIVATE_V6: [(Ipv6Addr, u32); 4] = [
    // Assignments of protocols: Teredo, benchmarks, ORCHID (RFC 2928).
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23),
    // Documentation (RFC 3849, RFC 9637).
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20),
    // 6to4, whose address leads to any IPv4 (RFC 3056).
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16),
];

/// The well-known prefix of translators to IPv4 (RFC 6052). The one for local use (RFC 8215) is not the world outside.
const NAT64: (Ipv6Addr, u32) = (Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0), 96);

/// Whether an address belongs to the world outside, so that a request to it tells nothing of the operator's own network.
///
/// An address of IPv6 that stands for one of IPv4 is judged as that. In doubt the answer is no.
#[must_use]
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => match embedded_v4(address) {
            Some(inner) => is_public_v4(inner),
            None => is_in_v6(address, GLOBAL_V6) && !PRIVATE_V6.iter().any(|range| is_in_v6(address, *range)),
        },
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    !PRIVATE_V4.iter().any(|(network, length)| {
        let shift = 32 - length;
        address.to_bits().checked_shr(shift) == network.to_bits().checked_shr(shift)
    })
}

/// The address of IPv4 that a mapped (RFC 4291) or translated one stands for.
fn embedded_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    if is_in_v6(address, NAT64) {
        let [.., a, b, c, d] = address.octets();
        return Some(Ipv4Addr::new(a, b, c, d));
    }
    address.to_ipv4_mapped()
}

fn is_in_v6(address: Ipv6Addr, (network, length): (Ipv6Addr, u32)) -> bool {
    let shift = 128 - length;
    address.to_bits() >> shift == network.to_bits() >> shift
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn v4(bits: u32) -> IpAddr {
        Ipv4Addr::from_bits(bits).into()
    }

    #[test]
    fn each_range_of_ipv4_is_private_from_its_first_to_its_last_address() {
        let is_listed = |bits: u32| {
            PRIVATE_V4.iter().any(|(network, length)| {
                let size = 1_u64 << (32 - length);
                (u64::from(network.to_bits())..u64::from(network.to_bits()) + size).contains(&u64::from(bits))
            })
        };
        for (network, length) in PRIVATE_V4 {
            let first = network.to_bits();
            let last = u32::try_from(u64::from(first) + (1_u64 << (32 - length)) - 1).unwrap();
            assert!(!is_public(v4(first)) && !is_public(v4(last)), "{network}/{length}");
            for beside in [first.checked_sub(1), last.checked_add(1)].into_iter().flatten() {
                assert_eq!(is_public(v4(beside)), !is_listed(beside), "beside {network}/{length}");
            }
        }
    }

    #[test]
    fn what_clouds_and_machines_have_for_themselves_is_private() {
        let private = [
            "127.0.0.1",
            "169.254.169.254",
            "100.100.100.200",
            "192.0.0.192",
            "168.63.129.16",
            "0.0.0.0",
            "255.255.255.255",
            "::",
            "::1",
            "::127.0.0.1",
            "::8.8.8.8",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b:1::1",
            "64:ff9b:1::808:808",
            "2002:7f00:1::",
            "2002:808:808::",
            "2001::1",
            "2001:1ff:ffff::1",
            "2001:db8::1",
            "3fff::1",
            "3fff:fff:ffff::1",
            "fd00:ec2::254",
            "fd20:ce::254",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "4000::1",
            "1fff:ffff::1",
        ];
        for address in private {
            assert!(!is_public(address.parse().unwrap()), "{address}");
        }
        let public = [
            "8.8.8.8",
            "93.184.216.34",
            "168.63.129.17",
            "::ffff:8.8.8.8",
            "64:ff9b::808:808",
            "2001:200::1",
            "2606:4700::1",
            "2a00:1450::1",
            "3fff:1000::1",
        ];
        for address in public {
            assert!(is_public(address.parse().unwrap()), "{address}");
        }
    }

    proptest! {
        #[test]
        fn an_address_is_judged_alike_however_it_is_dressed(bits in any::<u32>()) {
            let plain = Ipv4Addr::from_bits(bits);
            let mapped = plain.to_ipv6_mapped();
            let translated = Ipv6Addr::from_bits(NAT64.0.to_bits() | u128::from(bits));
            prop_assert_eq!(is_public(plain.into()), is_public(mapped.into()));
            prop_assert_eq!(is_public(plain.into()), is_public(translated.into()));
        }
    }
}
