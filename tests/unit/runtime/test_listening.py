import socket

from backstay_runtime.server import listen


def test_an_answers_second_part_does_not_wait_for_the_client_to_acknowledge_the_first() -> None:
    with listen("127.0.0.1", 0) as listening:
        listening.listen()
        with socket.create_connection(listening.getsockname()) as client:
            accepted, _ = listening.accept()
            with accepted:
                assert client.getpeername() == accepted.getsockname()
                assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
