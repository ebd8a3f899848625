import { ConfigError, type ProcessGroup } from '@shardwise/core/spec';
import { addObserver } from '../call/call-observer.ts';
import { CheckedGroup } from '../call/checked-group.ts';
import type { FlightRecorder } from './flight-recorder.ts';

/**
 * Records every call of a world's group, and of the groups that are split from it. Call it before the group's
 * first call, on all ranks or on none. Throws ConfigError for a group of another package, and for a group that
 * has been used.
 */
export function recordCalls(group: ProcessGroup, recorder: FlightRecorder): void {
  if (!(group instanceof CheckedGroup)) throw refusal('it is of another kind than those made here');
  if (group.counters.entries().length > 0) throw refusal('it has been called already');
  recorder.group(group);
  addObserver(group.observed, recorder);
}

/** Whether recordCalls accepts the group. */
export function canRecordCalls(group: ProcessGroup): boolean {
  return group instanceof CheckedGroup && group.counters.entries().length === 0;
}

function refusal(found: string): ConfigError {
  return new ConfigError({
    asked: 'Recording the calls of a group',
    found,
    todo: 'Record a group of @shardwise/collectives as soon as it is made',
  });
}
