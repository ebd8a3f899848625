import type { Transport } from '@shardwise/core/spec';

/** The bytes of messages since the rank has joined, without the frames around them. */
export interface Traffic {
  sentBytes: number;
  receivedBytes: number;
}

/** A transport that counts its messages when they are issued, which takes no time of them. */
export function countTraffic(transport: Transport, traffic: Traffic): Transport {
  return {
    specificationVersion: 1,
    rank: transport.rank,
    size: transport.size,
    send: (to, tag, bytes, options) => {
      traffic.sentBytes += bytes.byteLength;
      return transport.send(to, tag, bytes, options);
    },
    recv: (from, tag, bytes, options) => {
      traffic.receivedBytes += bytes.byteLength;
      return transport.recv(from, tag, bytes, options);
    },
    close: (reason) => transport.close(reason),
  };
}
