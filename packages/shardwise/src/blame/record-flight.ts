import { mkdirSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { FlightRecorder, recordCalls } from '@shardwise/collectives';
import { ConfigError, type ProcessGroup } from '@shardwise/core/extend';

/** The environment variable with the number of calls that a rank's record keeps. 0 turns the record off. */
const SIZE_VARIABLE = 'SHARDWISE_FLIGHT_RECORDER_SIZE';

/**
 * Records the calls of a rank's world, and writes them to `flight/rank-N.json` in the run directory. It writes them at
 * the first call that fails, and otherwise when the rank ends, because possibly only the other ranks have noticed that
 * this rank called something else. `runDirectory` returns undefined until the directory is known. Throws ConfigError.
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

/** Writes a dump synchronously, because a rank that fails may not reach its next turn of the event loop. */
function writeDump(recorder: FlightRecorder, directory: string): void {
  const path = join(directory, `rank-${recorder.rank}.json`);
  try {
    mkdirSync(directory, { recursive: true });
    writeFileSync(`${path}.part`, JSON.stringify(recorder.dump()));
    renameSync(`${path}.part`, path);
  } catch (error) {
    // The user must learn of the failure that led here, so a failed write only prints a line.
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

/** Returns the folder where the ranks of a run leave their dumps. */
export function flightDirectory(runDirectory: string): string {
  return join(runDirectory, 'flight');
}
