import { describeReduce } from '../call/record.ts';
import { userFrames } from './stack-sampler.ts';
import type { GroupRecording } from '../call/group-recording.ts';
import type { FlightEntry, FlightGroup, FlightStatus } from './flight-dump.ts';
import type { RecordedCall, RecordedSize, RecordedTransfer } from '../call/recorded-call.ts';

/** A group as a dump shows it. */
export function configOf({ name, worldRanks }: GroupRecording): FlightGroup {
  return {
    name,
    desc: `${worldRanks.length} ranks`,
    ranks: `[${worldRanks.join(', ')}]`,
  };
}

/** How far the collectives of a group have come. */
export function statusOf(group: GroupRecording): FlightStatus {
  return {
    last_enqueued_collective: group.issuedCollectives - 1,
    last_started_collective: group.lastStarted,
    last_completed_collective: group.lastCompleted,
  };
}

/**
 * A recorded call as a dump shows it. `toEpochNs` turns milliseconds of performance.now() into nanoseconds
 * since the epoch.
 */
export function entryOf(
  call: RecordedCall,
  group: GroupRecording,
  toEpochNs: (ms: number) => number,
): FlightEntry {
  const { what, startedMs, completedMs } = call;
  const { name, desc } = configOf(group);
  const isTransfer = 'peer' in what;
  const [input, output] = isTransfer ? [call.input, call.output] : sizesOf(call, group);
  return {
    record_id: call.id,
    pg_id: group.id,
    process_group: [name, desc],
    collective_seq_id: call.collectiveSequence,
    p2p_seq_id: call.transferSequence,
    op_id: call.groupCall,
    profiling_name: `shardwise:${isTransfer ? nameOf(what, group.rank) : what.operation}`,
    time_created_ns: toEpochNs(call.createdMs),
    duration_ms: completedMs === undefined ? null : completedMs - (startedMs ?? call.createdMs),
    input_sizes: input === undefined ? [] : [[input.elements]],
    input_dtypes: input === undefined ? [] : [input.dtype],
    output_sizes: output === undefined ? [] : [[output.elements]],
    output_dtypes: output === undefined ? [] : [output.dtype],
    state:
      completedMs !== undefined ? 'completed' : startedMs !== undefined ? 'started' : 'scheduled',
    time_discovered_started_ns: startedMs === undefined ? null : toEpochNs(startedMs),
    time_discovered_completed_ns: completedMs === undefined ? null : toEpochNs(completedMs),
    retired: call.isRetired,
    timeout_ms: Number.isFinite(call.timeoutMs) ? call.timeoutMs : null,
    is_p2p: isTransfer,
    frames: call.stack === undefined ? [] : userFrames(call.stack),
    reduce_op: isTransfer || what.reduce === undefined ? null : describeReduce(what.reduce),
    root: isTransfer ? null : (what.root ?? null),
    splits: isTransfer ? null : (what.splits ?? null),
    message: isTransfer ? { peer: what.peer, tag: what.tag, number: what.number } : null,
  };
}

function nameOf({ operation, peer }: RecordedTransfer, rank: number): string {
  return operation === 'send' ? `send ${rank}->${peer}` : `recv ${rank}<-${peer}`;
}

/**
 * The sizes of input and output. A call in place shows its buffer as both, no matter which of them moves on this rank.
 */
function sizesOf(
  { what, input, output }: RecordedCall,
  { rank }: GroupRecording,
): readonly [RecordedSize | undefined, RecordedSize | undefined] {
  if ('peer' in what || what.dtype === undefined) return [undefined, undefined];
  const whole = { elements: what.elements, dtype: what.dtype };
  const isRoot = what.root === rank;
  switch (what.operation) {
    case 'broadcast':
    case 'reduce':
      return [whole, whole];
    case 'gather':
      return [input, isRoot ? output : undefined];
    case 'scatter':
      return [isRoot ? input : undefined, output];
    default:
      return [input, output];
  }
}
