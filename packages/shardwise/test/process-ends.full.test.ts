import { spawn } from 'node:child_process';
import { webgpu } from '@shardwise/backend-webgpu';
import { reasonWithoutDevice } from '@shardwise/testing/node';
import { describe, expect, it } from 'vitest';
import { commandVariables } from '../../../test/support/shardwise-command.ts';
import { fixture } from './command.ts';

const reason = await reasonWithoutDevice(webgpu);
/** If something keeps a process alive, it is killed after this time. */
const patienceMs = 90_000;

interface Ended {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly output: string;
}

async function train(how: 'close' | 'leave'): Promise<Ended> {
  const child = spawn(process.execPath, [fixture('train-and-end.ts'), how], {
    env: { ...commandVariables(), SHARDWISE_DEVICE: 'webgpu' },
    timeout: patienceMs,
  });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => (output += text));
  }
  const { promise, resolve } = Promise.withResolvers<Ended>();
  child.on('close', (code, signal) => resolve({ code, signal, output }));
  return promise;
}

describe.skipIf(reason !== undefined)(
  `a process that trained on WebGPU${reason ? ` (not here: ${reason})` : ''}`,
  () => {
    it.each(['close', 'leave'] as const)(
      'ends when its rank has, by itself, where the script says: %s the context',
      async (how) => {
        const { code, signal, output } = await train(how);
        expect({ code, signal }, output).toEqual({ code: 0, signal: null });
        expect(output).toContain('step 2 on webgpu');
        expect(output).toContain('nothing is left to do');
      },
      patienceMs + 10_000,
    );
  },
);
