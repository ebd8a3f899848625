import { ConfigError } from '@shardwise/core/extend';
import type { Schedule } from '../actions/schedule.ts';

/** Returns the error for a schedule that cannot run. `place` says where in the schedule. */
export function scheduleError(
  {
    name,
    ranks,
    stages,
    microbatches,
  }: Pick<Schedule, 'name' | 'ranks' | 'stages' | 'microbatches'>,
  found: string,
  todo: string,
  place: Readonly<Record<string, unknown>> = {},
): ConfigError {
  return new ConfigError(
    {
      asked: `the schedule ${name} of ${stages} stages on ${ranks} ranks with ${microbatches} microbatches`,
      found,
      todo,
    },
    { schedule: name, ranks, stages, microbatches, ...place },
  );
}
