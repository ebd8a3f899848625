import type { FlightEntry, Operation } from '@shardwise/collectives';
import { displayPath } from '../text/display-path.ts';
import { printable } from '../text/printable.ts';
import type { BlamedCall } from './verdict.ts';

/** The size of each collective that all ranks must agree on. */
const agreedSize = {
  allReduce: 'input',
  allGather: 'input',
  reduceScatter: 'output',
  allToAll: 'none',
  broadcast: 'input',
  reduce: 'input',
  gather: 'input',
  scatter: 'output',
  barrier: 'none',
  split: 'none',
} as const satisfies Record<Operation, 'input' | 'output' | 'none'>;

const sides: ReadonlyMap<string, 'input' | 'output' | 'none'> = new Map(Object.entries(agreedSize));

/** Returns the name of the operation, such as `allReduce`. */
export function operationOf(entry: FlightEntry): string {
  return entry.profiling_name.replace(/^[^:]*:/, '').split(' ', 1)[0] ?? '';
}

/** Returns a text that is equal for calls of several ranks that belong together. */
export function signatureOf(entry: FlightEntry): string {
  const operation = operationOf(entry);
  const side = sides.get(operation) ?? 'input';
  const dtypes = entry.input_dtypes.length > 0 ? entry.input_dtypes : entry.output_dtypes;
  const size = side === 'none' ? null : side === 'input' ? entry.input_sizes : entry.output_sizes;
  return JSON.stringify([operation, dtypes, size, entry.reduce_op, entry.root]);
}

/** Whether the splits of an all-to-all disagree on what `from` sends to `to`. `ranks` are ranks of the group. */
export function splitsDiffer(
  from: FlightEntry,
  to: FlightEntry,
  ranks: { readonly from: number; readonly to: number },
): boolean {
  if (from.splits === null || to.splits === null) return false;
  return from.splits.input[ranks.to] !== to.splits.output[ranks.from];
}

/** Describes the size of a message, on which sender and receiver must agree. */
export function messageSize(entry: FlightEntry): string {
  return describeSize(entry.is_p2p && entry.input_sizes.length > 0 ? 'input' : 'output', entry);
}

export function blamedCall(rank: number, entry: FlightEntry): BlamedCall {
  const [frame] = entry.frames;
  return {
    rank,
    call: oneLine(describeEntry(entry)),
    sequence: entry.message?.number ?? entry.collective_seq_id,
    state: entry.state,
    site:
      frame === undefined
        ? undefined
        : oneLine(
            `${displayPath(frame.filename)}:${frame.line}${frame.name === '<anonymous>' ? '' : ` (${frame.name})`}`,
          ),
    createdNs: entry.time_created_ns,
  };
}

/** Describes a call as the errors of collectives do. */
function describeEntry(entry: FlightEntry): string {
  const { message, splits } = entry;
  const operation = operationOf(entry);
  if (message !== null) {
    const peer = `${operation === 'send' ? 'to' : 'from'} ${message.peer}`;
    return `${operation}(${peer}, tag ${message.tag}, ${messageSize(entry)})`;
  }
  const parts = [
    ...(entry.reduce_op === null ? [] : [entry.reduce_op]),
    ...(entry.root === null ? [] : [`root ${entry.root}`]),
    ...(entry.input_dtypes.length + entry.output_dtypes.length === 0
      ? []
      : [describeSize(sides.get(operation) === 'output' ? 'output' : 'input', entry)]),
    ...(splits === null
      ? []
      : [`splits [${splits.input.join(', ')}] -> [${splits.output.join(', ')}]`]),
  ];
  return `${operation}(${parts.join(', ')})`;
}

function describeSize(side: 'input' | 'output', entry: FlightEntry): string {
  const [dtypes, sizes] =
    side === 'input'
      ? [entry.input_dtypes, entry.input_sizes]
      : [entry.output_dtypes, entry.output_sizes];
  return `${dtypes[0] ?? 'nothing'} [${(sizes[0] ?? []).join(', ')}]`;
}

/** Makes a name from a dump safe to print on one line. The dump may come from anywhere. */
export function oneLine(text: string): string {
  return printable(text.replaceAll(/\s+/g, ' '));
}
