import { peersOf } from '../algorithms/peers.ts';
import type { Wire } from '../algorithms/wire.ts';
import { encodeRecord, recordFields } from '../call/record-codec.ts';
import type { CallRecord } from '../call/record.ts';

export interface Meeting {
  /** Every rank's encoded record, once all have arrived. */
  readonly records: Promise<readonly Float64Array[]>;
  /** Ranks whose record has not come. */
  readonly missing: () => readonly number[];
}

/** Everyone tells everyone which call it makes; begun when the call is issued. */
export function meet(wire: Wire, record: CallRecord): Meeting {
  const records = Array.from(
    { length: wire.size },
    () => new Float64Array(recordFields(wire.size)),
  );
  const own = records[wire.rank] ?? new Float64Array(0);
  encodeRecord(record, wire.size, own);
  const peers = peersOf(wire);
  const missing = new Set(peers);
  const exchange = [
    ...peers.map((peer) => wire.send(peer, bytesOf(own))),
    ...peers.map(async (peer) => {
      await wire.recv(peer, bytesOf(records[peer] ?? own));
      missing.delete(peer);
    }),
  ];
  return {
    records: Promise.all(exchange).then(() => records),
    missing: () => [...missing].sort((a, b) => a - b),
  };
}

function bytesOf(fields: Float64Array): Uint8Array {
  return new Uint8Array(fields.buffer, fields.byteOffset, fields.byteLength);
}
