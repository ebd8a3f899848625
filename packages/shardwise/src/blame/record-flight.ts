import { mkdirSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { FlightRecorder, recordCalls } from '@shardwise/collectives';
import { ConfigError, type ProcessGroup } from '@shardwise/core/extend';

/** Calls that a rank's record keeps; 0: none is made. */
const SIZE_VARIABLE = 'SHARDWISE_FLIGHT_RECORDER_SIZE';

/**
 * Takes down the calls of a rank's world, and leaves them as `flight/rank-N.json` in the run
 * directory: at the first call that fails, else when the rank ends, as only the others may have
 * noticed that it has called something else. `runDirectory` is undefined as long as it is not known.
 * Throws ConfigError.
 */
export function recordFlight(
  group: ProcessGroup,
  runDirectory: () => string | undefined,
  environment: NodeJS.ProcessEnv,
): void {
  const size = sizeFrom(environment[SIZE_VARIABLE]);
  if (size === 0) return;
  let isWritten = false;
  const write = (): void => {
    const directory = runDirectory();
    if (isWritten || directory === undefined) return;
    isWritten = true;
    writeDump(recorder, flightDirectory(directory));
  };
  const recorder = new FlightRecorder({
    rank: group.rank,
    worldSize: group.size,
    ...(size === undefined ? {} : { size }),
    onFailure: write,
  });
  recordCalls(group, recorder);
  process.once('exit', write);
}

/** Writes a dump at once, as a rank that fails may not come to its next turn. */
function writeDump(recorder: FlightRecorder, directory: string): void {
  const path = join(directory, `rank-${recorder.rank}.json`);
  try {
    mkdirSync(directory, { recursive: true });
    writeFileSync(`${path}.part`, JSON.stringify(recorder.dump()));
    renameSync(`${path}.part`, path);
  } catch (error) {
    // The failure that led here is what the user must learn of.
    const reason = error instanceof Error ? error.message : String(error);
    process.stderr.write(`Writing ${path}: ${reason}. The run's verdict will lack this rank\n`);
  }
}

function sizeFrom(text: string | undefined): number | undefined {
  if (text === undefined || text === '') return undefined;
  if (/^\d{1,6}$/.test(text)) return Number(text);
  throw new ConfigError(
    {
      asked: `${SIZE_VARIABLE}=${text}`,
      found: 'it is no number of calls',
      todo: 'Give a whole number up to 100000; 0 turns the record off',
    },
    { variable: SIZE_VARIABLE, value: text },
  );
}

/** Where the ranks of a run leave their dumps. */
export function flightDirectory(runDirectory: string): string {
  return join(runDirectory, 'flight');
}
