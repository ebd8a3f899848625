import type { RequestConnection, Transport } from '@shardwise/core/spec';

/** The bytes of messages and requests since the rank has joined, without the frames around them. */
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

/** A connection that counts its requests when they are issued, and their answers when they come. */
export function countRequests(connection: RequestConnection, traffic: Traffic): RequestConnection {
  return {
    address: connection.address,
    request: (parts, read, options) => {
      traffic.sentBytes += lengthOf(parts);
      return connection.request(
        parts,
        (answer) => {
          traffic.receivedBytes += lengthOf(answer);
          return read(answer);
        },
        options,
      );
    },
    close: () => connection.close(),
  };
}

function lengthOf(parts: readonly Uint8Array[]): number {
  return parts.reduce((sum, { byteLength }) => sum + byteLength, 0);
}
