import type { FlightDump, FlightEntry } from '@shardwise/collectives';
import { blamedCall, messageSize, oneLine, operationOf } from './describe-entry.ts';
import type { GroupView } from './group-view.ts';
import type { Absence, Finding } from './verdict.ts';

/** The messages of one sender to one receiver with one tag, by message number. */
interface Stream {
  readonly from: number;
  readonly to: number;
  readonly tag: number;
  readonly sends: Map<number, FlightEntry>;
  readonly receives: Map<number, FlightEntry>;
}

/**
 * Returns the first message of each sender, receiver and tag whose other half is missing, differs or did not finish.
 */
export function compareMessages(
  group: GroupView,
  dumps: ReadonlyMap<number, FlightDump>,
): readonly Finding[] {
  return streamsOf(group).flatMap((stream) => compareStream(group, stream, dumps) ?? []);
}

function streamsOf({ members, ranks }: GroupView): readonly Stream[] {
  const streams = new Map<string, Stream>();
  for (const [rank, { messages }] of ranks) {
    for (const entry of messages) {
      const peer = entry.message === null ? undefined : members[entry.message.peer];
      if (entry.message === null || peer === undefined) continue;
      const { tag, number } = entry.message;
      const isSend = operationOf(entry) === 'send';
      const [from, to] = isSend ? [rank, peer] : [peer, rank];
      const key = `${from} ${to} ${tag}`;
      const stream = streams.get(key) ?? {
        from,
        to,
        tag,
        sends: new Map<number, FlightEntry>(),
        receives: new Map<number, FlightEntry>(),
      };
      (isSend ? stream.sends : stream.receives).set(number, entry);
      streams.set(key, stream);
    }
  }
  return [...streams.values()];
}

function compareStream(
  group: GroupView,
  { from, to, tag, sends, receives }: Stream,
  dumps: ReadonlyMap<number, FlightDump>,
): Finding | undefined {
  const numbers = [...new Set([...sends.keys(), ...receives.keys()])].sort((a, b) => a - b);
  for (const number of numbers) {
    const send = sends.get(number);
    const receive = receives.get(number);
    const halves = [
      ...(send === undefined ? [] : [blamedCall(from, send)]),
      ...(receive === undefined ? [] : [blamedCall(to, receive)]),
    ];
    if (halves.every(({ state }) => state === 'completed')) continue;
    const place = {
      group: oneLine(group.name),
      place: `message #${number} from rank ${from} to rank ${to} with tag ${tag}`,
      sequence: number,
      sinceNs: Math.min(...halves.map(({ createdNs }) => createdNs)),
      calls: halves,
    };
    if (send !== undefined && receive !== undefined) {
      const culprits = [from, to].sort((a, b) => a - b);
      return messageSize(send) === messageSize(receive)
        ? { kind: 'unfinished', ...place, culprits }
        : { kind: 'differs', ...place, culprits, siteHint: [] };
    }
    const [absent, others] = send === undefined ? [from, sends] : [to, receives];
    // The other rank has later messages, so its ring has dropped this one and nothing is missing.
    if ([...others.keys()].some((other) => other > number)) continue;
    const absences = [absenceOf(group, absent, dumps)];
    return { kind: 'missing', ...place, culprits: [absent], absences, siteHint: [] };
  }
  return undefined;
}

function absenceOf(
  { ranks }: GroupView,
  rank: number,
  dumps: ReadonlyMap<number, FlightDump>,
): Absence {
  if (!dumps.has(rank)) return { rank, kind: 'no dump' };
  const latest = ranks.get(rank)?.latest;
  return {
    rank,
    kind: 'not called',
    last: latest === undefined ? undefined : blamedCall(rank, latest),
  };
}
