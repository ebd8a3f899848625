import type { ServeOptions } from '../serve/serve-options.ts';
import { startReplicas } from '../serve/replicas/start-replicas.ts';
import { startServing } from '../serve/start-serving.ts';
import { formatDuration } from '../text/format.ts';
import { followInterrupts } from './interrupts.ts';

/** The options of `shardwise serve`. */
export interface ServeCommandOptions extends ServeOptions {
  /** How long requests that have begun may take when the server is asked to end. */
  readonly drainTimeoutMs: number;
}

/**
 * Runs `shardwise serve` until SIGINT or SIGTERM. The first signal lets requests that have begun be answered, and the
 * second one cuts them off. Returns the exit code: 0 if all were answered, and 1 otherwise. Throws the errors of
 * startServing.
 */
export async function serveCommand(options: ServeCommandOptions): Promise<number> {
  // Until it listens, a signal ends the process at once.
  const isAlone = options.nproc === 1 && options.tensorParallelSize === 1;
  const serving = await (isAlone ? startServing(options) : startReplicas(options));
  const { server } = serving;
  const asked = Promise.withResolvers<void>();
  const interrupts = followInterrupts(asked.resolve);
  interrupts.forced.addEventListener('abort', () => server.cut());
  process.stdout.write(`${serving.summary}\n`);
  await asked.promise;
  const { drainTimeoutMs } = options;
  if (serving.open > 0) {
    const limit = formatDuration(drainTimeoutMs);
    process.stdout.write(
      `Ending: texts of ${serving.open} sequences are still made, for at most ${limit}.\n`,
    );
  }
  const answeredAll = await server.close(drainTimeoutMs);
  await serving.dispose();
  interrupts.dispose();
  if (answeredAll) return 0;
  process.stderr.write('Ended before all requests were answered.\n');
  return 1;
}
