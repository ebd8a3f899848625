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
  /** By rank, which of its calls its record is of: another than ours where records were lost. */
  readonly sequences: readonly number[];
}

/** Everyone tells everyone which call it makes, and how; begun when the call is issued. */
export function meet(
  wire: Wire,
  record: CallRecord,
  { algorithm, sequence }: { readonly algorithm: number; readonly sequence: number },
): Meeting {
  const fields = recordFields(wire.size);
  const records = Array.from({ length: wire.size }, () => new Float64Array(fields + 2));
  const own = records[wire.rank] ?? new Float64Array(0);
  encodeRecord(record, wire.size, own);
  own[fields] = algorithm;
  own[fields + 1] = sequence;
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
      sequences: records.map((told) => told[fields + 1] ?? -1),
    })),
    missing: () => [...missing].sort((a, b) => a - b),
  };
}

/** The same later: the group's records are sent in the order of its calls. */
export function meetAfter(before: Promise<unknown> | undefined, begin: () => Meeting): Meeting {
  let meeting: Meeting | undefined;
  const met = Promise.resolve(before).then(() => {
    meeting = begin();
    return meeting.met;
  });
  return { met, missing: () => meeting?.missing() ?? [] };
}

function bytesOf(fields: Float64Array): Uint8Array {
  return new Uint8Array(fields.buffer, fields.byteOffset, fields.byteLength);
}
