import { isMainThread } from 'node:worker_threads';
import { endWithParent } from '@shardwise/collectives/node';
import { keepGenericWasmWrappers } from '@shardwise/core/node';
import { launcherVariable } from '../environment.ts';
import { encodeError } from './error-data.ts';
import { isRankProcess, type FromProcess } from './process-message.ts';

// Imported in a rank's process before its script.

/** What is left of a launcher whose rank goes on. */
const ORPHANED = 1;
/** The exit code that Node gives a process that fails. */
const FAILED = 1;

if (isMainThread && process.env[launcherVariable] !== undefined) {
  if (isRankProcess()) follow();
  // The launcher has ended before this process could follow it.
  else if (process.connected) process.exit(ORPHANED);
}

/** Ends with the launcher, and tells it what ends this process. */
function follow(): void {
  // The kernel ends a process that is busy or blocked; the channel's end, one that listens.
  endWithParent();
  keepGenericWasmWrappers();
  process.on('disconnect', () => process.exit(ORPHANED));
  // Not a reason to stay alive.
  process.channel?.unref();
  process.on('uncaughtExceptionMonitor', (thrown: unknown) => {
    const message: FromProcess = { kind: 'error', error: encodeError(thrown) };
    process.send?.(message);
    // The launcher prints it: Node need not.
    if (process.listenerCount('uncaughtException') === 0) process.exit(FAILED);
  });
}
