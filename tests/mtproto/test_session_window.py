"""msg_ids: the server's own, and the window over the client's, against one that keeps everything."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from telesrv.mtproto.msg_ids import MsgIdGenerator, ReceivedWindow, msg_id_at, seconds_of

NOW = 1_700_000_000.0


def test_ids_carry_the_time_and_the_kind() -> None:
    ids = MsgIdGenerator()
    answer = ids.next(NOW, reply=True)
    push = ids.next(NOW, reply=False)
    assert answer == (1_700_000_000 << 32) | 1
    assert push == ((1_700_000_000 << 32) + 4) | 3
    assert ids.next(NOW + 0.5, reply=True) == (1_700_000_000 << 32) + (1 << 31) | 1


@given(st.lists(st.floats(0, 10), max_size=50))
def test_ids_rise_while_the_clock_does_not_go_far_back(steps: list[float]) -> None:
    ids = MsgIdGenerator()
    made = [ids.next(NOW + step, reply=bool(i % 2)) for i, step in enumerate(steps)]
    assert made == sorted(set(made))


@given(st.lists(st.floats(-1000, 1000), min_size=1, max_size=50))
def test_ids_never_run_ahead_of_the_clock(steps: list[float]) -> None:
    ids = MsgIdGenerator()
    for step in steps:
        assert seconds_of(ids.next(NOW + step, reply=True)) - (NOW + step) < 30


def take(window: ReceivedWindow, msg_id: int, now: float) -> bool:
    """Does what the session does: a message is new when it is neither remembered nor below the floor."""
    if msg_id in window or msg_id <= window.floor:
        return False
    window.add(msg_id, 1, now, is_request=True)
    return True


@given(
    st.lists(st.tuples(st.integers(0, 80), st.integers(0, 120)), max_size=200),
    st.integers(4, 32),
)
def test_nothing_is_new_twice(arrivals: list[tuple[int, int]], limit: int) -> None:
    window = ReceivedWindow(limit)
    taken: set[int] = set()
    now = NOW
    for offset, step_s in arrivals:
        now += step_s
        msg_id = msg_id_at(now - 2 * offset)
        if take(window, msg_id, now):
            assert msg_id not in taken
            taken.add(msg_id)
        else:
            # A naive set would call it new only if the window had to forget: then it lies below the floor.
            assert msg_id in taken or msg_id <= window.floor
        assert len(window) <= limit + limit // 4 + 1


@given(st.lists(st.integers(1, 60), unique=True, max_size=60))
def test_a_window_that_forgets_nothing_is_the_naive_set(order: list[int]) -> None:
    window = ReceivedWindow(100)
    taken: set[int] = set()
    for step in order + order:
        msg_id = msg_id_at(NOW) + 4 * step
        assert take(window, msg_id, NOW) == (msg_id not in taken)
        taken.add(msg_id)


def test_what_runs_or_waits_for_its_acknowledgement_is_not_forgotten() -> None:
    window = ReceivedWindow(8)
    first = window.add(msg_id_at(NOW), 1, NOW, is_request=True)
    first.running = True
    for step in range(1, 100):
        window.add(msg_id_at(NOW) + 4 * step, 1 + 2 * step, NOW, is_request=True)
    assert window.get(msg_id_at(NOW)) is first
    assert window.floor > msg_id_at(NOW)
    window.add(msg_id_at(NOW + 5000), 999, NOW + 5000, is_request=True)
    assert window.get(msg_id_at(NOW)) is first
    assert len(window) == 2


def test_containers_are_forgotten_below_the_floor_too() -> None:
    window = ReceivedWindow(8)
    for step in range(20):
        window.add_container(msg_id_at(NOW) + 4 * step)
    for step in range(20):
        msg_id = msg_id_at(NOW) + 4 * step
        assert window.is_container(msg_id) != (msg_id <= window.floor)


@given(st.lists(st.tuples(st.integers(1, 40), st.integers(0, 12)), max_size=60))
def test_the_order_of_seq_nos_is_that_of_a_naive_check(messages: list[tuple[int, int]]) -> None:
    window = ReceivedWindow(100)
    known: dict[int, int] = {}
    for step, seq_no in messages:
        msg_id = msg_id_at(NOW) + 4 * step
        if msg_id in known:
            continue
        odd = seq_no % 2 == 1
        too_low = any(i < msg_id and (s > seq_no or (s == seq_no and odd)) for i, s in known.items())
        too_high = any(i > msg_id and (s < seq_no or (s == seq_no and odd)) for i, s in known.items())
        error = window.order_error(msg_id, seq_no)
        assert error in ({32} if too_low else {33}) if too_low or too_high else error == 0
        if not error:
            window.add(msg_id, seq_no, NOW, is_request=odd)
            known[msg_id] = seq_no
