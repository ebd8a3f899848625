import type { SpawnRanksOptions } from '@shardwise/testing/node';
import { ThreadPool } from './thread-pool.ts';

/** The threads of all files of this process. Loading the sources takes longer than what many tests do with them. */
const pool = new ThreadPool();
let isRunning = false;

/**
 * Does what spawnRanks does, on threads that earlier calls have started and that have loaded the sources. The function
 * of the ranks must set its rank and its seed. It cannot count what a thread has done since it started. A rank that
 * fails ends all threads.
 */
export async function runRanks(
  size: number,
  moduleUrl: URL,
  {
    name = 'main',
    world,
    data,
    timeoutMs = 60_000,
  }: Pick<SpawnRanksOptions, 'name' | 'world' | 'data' | 'timeoutMs'> = {},
): Promise<readonly unknown[]> {
  if (isRunning) throw new Error('ranks are running: one call of runRanks must end before another');
  isRunning = true;
  const failed = Promise.withResolvers<never>();
  const timer = setTimeout(() => {
    failed.reject(new Error(`the ranks did not end within ${timeoutMs} ms`));
  }, timeoutMs);
  const onFailure = (_: number, error: Error): void => failed.reject(error);
  try {
    const running = pool.run(size, moduleUrl, { name, world, data, onFailure });
    const outcomes = await Promise.race([running, failed.promise]);
    return outcomes.map((outcome) => (outcome.status === 'fulfilled' ? outcome.value : undefined));
  } catch (error) {
    await pool.end();
    throw error;
  } finally {
    clearTimeout(timer);
    isRunning = false;
  }
}
