import type { FlightDump, FlightEntry, FlightState } from '@shardwise/collectives';

export interface CallOptions {
  readonly state?: FlightState;
  readonly elements?: number;
  /** The time since the start of the run, in milliseconds. */
  readonly atMs?: number;
  readonly line?: number;
  readonly group?: string;
  readonly splits?: FlightEntry['splits'];
}

export interface Call extends CallOptions {
  readonly operation: string;
  readonly message?: { readonly peer: number; readonly tag: number };
}

export function call(operation: string, options: CallOptions = {}): Call {
  return { operation, ...options };
}

export function message(
  operation: 'send' | 'recv',
  peer: number,
  options: CallOptions & { readonly tag?: number } = {},
): Call {
  return { operation, message: { peer, tag: options.tag ?? 0 }, ...options };
}

const EPOCH_NS = 1.7e18;

/** Returns the dump that a rank would have left after `calls`. `groups` gives the ranks of each group by its name. */
export function dumpOf(
  rank: number,
  groups: Readonly<Record<string, readonly number[]>>,
  calls: readonly Call[],
  options: {
    readonly failure?: {
      readonly code: string;
      readonly atMs: number;
      readonly recordId: number;
      readonly missing?: readonly number[];
    };
    /** The size of the ring of recorded calls. */
    readonly kept?: number;
  } = {},
): FlightDump {
  const names = Object.keys(groups);
  const collectives = new Map<string, number>();
  const messages = new Map<string, number>();
  const next = (counts: Map<string, number>, key: string): number => {
    const count = counts.get(key) ?? 0;
    counts.set(key, count + 1);
    return count;
  };
  const entries = calls.map((made, id): FlightEntry => {
    const { operation, group = names[0] ?? 'world', elements = 4, state = 'completed' } = made;
    const isEmpty = operation === 'barrier';
    const sizes = isEmpty || operation === 'recv' ? [] : [[elements]];
    const outputs = isEmpty || operation === 'send' ? [] : [[elements]];
    const created = EPOCH_NS + (made.atMs ?? id) * 1e6;
    return {
      record_id: id,
      pg_id: names.indexOf(group),
      process_group: [group, ''],
      collective_seq_id:
        made.message === undefined ? next(collectives, group) : (collectives.get(group) ?? 0),
      p2p_seq_id: 0,
      op_id: id,
      profiling_name: `shardwise:${operation}`,
      time_created_ns: created,
      duration_ms: state === 'completed' ? 1 : null,
      input_sizes: sizes,
      input_dtypes: sizes.map(() => 'f32'),
      output_sizes: outputs,
      output_dtypes: outputs.map(() => 'f32'),
      state,
      time_discovered_started_ns: state === 'scheduled' ? null : created,
      time_discovered_completed_ns: state === 'completed' ? created : null,
      retired: state === 'completed',
      timeout_ms: 1000,
      is_p2p: made.message !== undefined,
      frames:
        made.line === undefined
          ? []
          : [{ name: 'step', filename: '/home/train.ts', line: made.line }],
      reduce_op: operation === 'allReduce' ? 'sum' : null,
      root: operation === 'broadcast' ? 0 : null,
      splits: made.splits ?? null,
      message:
        made.message === undefined
          ? null
          : {
              ...made.message,
              number: next(messages, `${operation} ${made.message.peer} ${made.message.tag}`),
            },
    };
  });
  const { failure, kept = Infinity } = options;
  return {
    version: '1.0',
    rank,
    world_size: groups['world']?.length ?? 1,
    pg_config: Object.fromEntries(
      names.map((name, id) => [id, { name, desc: '', ranks: `[${groups[name]?.join(', ')}]` }]),
    ),
    pg_status: Object.fromEntries(
      names.map((name, id) => [
        id,
        {
          last_enqueued_collective: (collectives.get(name) ?? 0) - 1,
          last_started_collective: -1,
          last_completed_collective: -1,
        },
      ]),
    ),
    entries: entries.slice(Math.max(0, entries.length - kept)),
    failure:
      failure === undefined
        ? null
        : {
            code: failure.code,
            message: 'it failed',
            time_ns: EPOCH_NS + failure.atMs * 1e6,
            record_id: failure.recordId,
            missing_ranks: failure.missing ?? null,
          },
  };
}
