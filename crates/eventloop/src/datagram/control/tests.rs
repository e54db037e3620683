//! Tests for control messages.

use proptest::prelude::*;

use super::*;

const ECN: [Option<Ecn>; 4] = [None, Some(Ecn::Ect0), Some(Ecn::Ect1), Some(Ecn::Ce)];

/// Returns control messages the way the system writes them.
fn control(messages: &[(c_int, c_int, Vec<u8>)]) -> Request {
    let mut control = Request::new();
    for (level, kind, data) in messages {
        control.push(*level, *kind, data);
    }
    control
}

fn ipv4_info(address: Ipv4Addr) -> (c_int, c_int, Vec<u8>) {
    let mut data = vec![0xee; ipv4_info::DATA_BYTES];
    data[ipv4_info::RECEIVED_AT..][..4].copy_from_slice(&address.octets());
    (libc::IPPROTO_IP, ipv4_info::TYPE, data)
}

fn ipv6_info(address: Ipv6Addr) -> (c_int, c_int, Vec<u8>) {
    (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, [&address.octets()[..], &[7; 4]].concat())
}

#[test]
fn request_has_the_layout_of_the_system() {
    let mut request = Request::new();
    assert!(request.as_bytes().is_empty());
    request.set_source(Ipv6Addr::LOCALHOST.into());
    request.set_ecn(Ecn::Ce, (Ipv6Addr::LOCALHOST, 1).into());
    request.set_segment_bytes(1200);
    let (ControlMessage { level, kind, data }, rest) = ControlMessage::split(request.as_bytes()).unwrap();
    assert_eq!((level, kind, data.len()), (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, 20));
    let (ControlMessage { level, kind, data }, rest) = ControlMessage::split(rest).unwrap();
    assert_eq!((level, kind, data), (libc::IPPROTO_IPV6, libc::IPV6_TCLASS, &3i32.to_ne_bytes()[..]));
    // Other systems don't have a message for segments.
    assert!(cfg!(target_os = "linux") || rest.is_empty());
    #[cfg(target_os = "linux")]
    {
        let (ControlMessage { level, kind, data }, rest) = ControlMessage::split(rest).unwrap();
        assert_eq!((level, kind, data), (libc::SOL_UDP, 103, &1200u16.to_ne_bytes()[..]));
        assert!(ControlMessage::split(rest).is_none());
    }
}

#[test]
fn length_that_leads_outside_is_refused() {
    let info = control(&[ipv4_info(Ipv4Addr::LOCALHOST)]);
    let bytes = info.as_bytes();
    assert_eq!(Report::parse(bytes).destination, Some(Ipv4Addr::LOCALHOST.into()));
    let end = Length::try_from(bytes.len()).unwrap();
    for length in [0, 1, 11, end + 1, Length::MAX - 7, Length::MAX] {
        let malformed = [&length.to_ne_bytes()[..], &bytes[LENGTH_BYTES..]].concat();
        assert_eq!(Report::parse(&malformed), Report::default(), "{length}");
    }
}

proptest! {
    #[test]
    fn arbitrary_bytes_cause_no_panic(bytes in proptest::collection::vec(any::<u8>(), 0..CONTROL_BYTES)) {
        Report::parse(&bytes);
    }

    #[test]
    fn report_is_parsed_in_any_order(
        address in any::<Option<Ipv4Addr>>(),
        other in any::<Ipv6Addr>(),
        class in any::<u8>(),
        unknown in proptest::collection::vec(any::<u8>(), 0..9),
        swapped in any::<bool>(),
        cut in 0usize..200,
    ) {
        let (info, tos) = match address {
            Some(address) => (ipv4_info(address), (libc::IPPROTO_IP, TOS_RECEIVED, vec![class])),
            None => {
                let class = c_int::from(class).to_ne_bytes().to_vec();
                (ipv6_info(other), (libc::IPPROTO_IPV6, libc::IPV6_TCLASS, class))
            }
        };
        let mut messages = vec![info, (libc::SOL_SOCKET, 12_345, unknown), tos];
        if swapped {
            messages.reverse();
        }
        let control = control(&messages);
        let report = Report::parse(control.as_bytes());
        prop_assert_eq!(report.destination, Some(address.map_or(other.into(), IpAddr::from)));
        prop_assert_eq!(report.ecn, Ecn::from_traffic_class(class));
        prop_assert!(ECN.contains(&report.ecn));

        // If we only have a part, we will get the same data or none.
        let bytes = control.as_bytes();
        let part = Report::parse(&bytes[..cut.min(bytes.len())]);
        prop_assert!(part.destination.is_none() || part.destination == report.destination);
        prop_assert!(part.ecn.is_none() || part.ecn == report.ecn);
    }
}
