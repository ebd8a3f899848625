import { BackendError, type ShardwiseError } from '@shardwise/core/spec';
import { describeTask, fieldsOf, type Task } from './task.ts';

const startAgain = 'Start this rank again, from a checkpoint if there is one';

/** The error for something that went wrong on the device while it was at a task. */
export function deviceError(message: string, task?: Task): ShardwiseError {
  if (task === undefined) {
    return new BackendError({ asked: 'the device to compute', found: message, todo: startAgain });
  }
  return new BackendError(
    { asked: `the device to compute ${describeTask(task)}`, found: message, todo: startAgain },
    fieldsOf(task),
  );
}

export function tooLong(task: Task, timeoutMs: number): ShardwiseError {
  return new BackendError(
    {
      asked: `the device to compute ${describeTask(task)}`,
      found: `it was not done after ${timeoutMs} ms`,
      todo: `${startAgain}; a device that is so slow needs webgpu({ timeoutMs }), or smaller batches`,
    },
    { ...fieldsOf(task), timeoutMs },
  );
}

export function refusedKernel(label: string, cause: unknown): ShardwiseError {
  return new BackendError(
    {
      asked: `a kernel for ${label}`,
      found: `the device refuses it: ${cause instanceof Error ? cause.message : String(cause)}`,
      todo: 'Report this as a bug, with the name of the adapter; compute on another backend until then',
    },
    { kernel: label },
    { cause },
  );
}

export function refusedCommands(task: Task, message: string): ShardwiseError {
  return new BackendError(
    {
      asked: `the device to compute ${describeTask(task)}`,
      found: `it refuses the commands: ${message}`,
      todo: 'Report this as a bug, with the name of the adapter; compute on another backend until then',
    },
    fieldsOf(task),
  );
}
