import { peersOf } from '../algorithms/peers.ts';
import type { Wire } from '../algorithms/wire.ts';
import { encodeRecord, recordFields } from '../call/record-codec.ts';
import type { CallRecord } from '../call/record.ts';

export interface Meeting {
  /** What every rank has told, once all have arrived. */
  readonly met: Promise<Met>;
  /** Ranks whose record has not come. */
  readonly missing: () => readonly number[];
}

export interface Met {
  /** Encoded, by rank. */
  readonly records: readonly Float64Array[];
  /** By rank, the number of the algorithm that it has chosen among those of the operation. */
  readonly algorithms: readonly number[];
}

/** Everyone tells everyone which call it makes, and how; begun when the call is issued. */
export function meet(wire: Wire, record: CallRecord, algorithm: number): Meeting {
  const fields = recordFields(wire.size);
  const records = Array.from({ length: wire.size }, () => new Float64Array(fields + 1));
  const own = records[wire.rank] ?? new Float64Array(0);
  encodeRecord(record, wire.size, own);
  own[fields] = algorithm;
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
    met: Promise.all(exchange).then(() => ({
      records,
      algorithms: records.map((told) => told[fields] ?? -1),
    })),
    missing: () => [...missing].sort((a, b) => a - b),
  };
}

function bytesOf(fields: Float64Array): Uint8Array {
  return new Uint8Array(fields.buffer, fields.byteOffset, fields.byteLength);
}
