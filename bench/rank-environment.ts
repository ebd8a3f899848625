/**
 * The environment of ranks that are threads of this process, as `shardwise` sets it: each knows how many ranks the host has.
 * Several worlds of ranks take turns here, so all of their threads have room in the pool that the process has.
 */
export function rankEnvironment(ranks: number): NodeJS.ProcessEnv {
  return { ...process.env, LOCAL_WORLD_SIZE: String(ranks), UV_THREADPOOL_SIZE: '128' };
}
