import { isMainThread } from 'node:worker_threads';
import { endWithParent } from '@shardwise/collectives/node';
import { keepGenericWasmWrappers } from '@shardwise/core/node';
import { launcherVariable } from '../ranks/environment.ts';
import { encodeError } from './error-data.ts';
import { isRankProcess, type FromProcess } from './process-message.ts';

// This module is imported in a rank's process before its script.

/** The exit code of a rank whose launcher has ended. */
const ORPHANED = 1;
/** The exit code that Node gives a process that fails. */
const FAILED = 1;

if (isMainThread && process.env[launcherVariable] !== undefined) {
  if (isRankProcess()) follow();
  // The launcher has ended before this process could follow it.
  else if (process.connected) process.exit(ORPHANED);
}

/** Makes this process end with the launcher, and tell the launcher which error ends this process. */
function follow(): void {
  // The kernel also ends a process that is busy or blocked. The 'disconnect' event ends only one whose event loop runs.
  endWithParent();
  keepGenericWasmWrappers();
  process.on('disconnect', () => process.exit(ORPHANED));
  // The channel must not keep the process alive.
  process.channel?.unref();
  process.on('uncaughtExceptionMonitor', (thrown: unknown) => {
    const message: FromProcess = { kind: 'error', error: encodeError(thrown) };
    process.send?.(message);
    // The launcher prints the error, so Node need not.
    if (process.listenerCount('uncaughtException') === 0) process.exit(FAILED);
  });
}
