import { spawn, type ChildProcessByStdio } from 'node:child_process';
import { once } from 'node:events';
import type { Readable } from 'node:stream';
import { findMpis, type MpiLauncher } from '@shardwise/testing/node';
import { describe, expect, it } from 'vitest';

interface Ended {
  readonly exitCode: number | null;
  readonly output: string;
  /** The output of each rank. */
  readonly said: readonly string[];
}

const program = new URL('./mpi-fault-rank.ts', import.meta.url).pathname;
const size = 3;

function start(
  launcher: MpiLauncher,
  fault: string,
): ChildProcessByStdio<null, Readable, Readable> {
  return spawn(
    launcher.command,
    [...launcher.argumentsFor(size), process.execPath, program, fault],
    { env: { ...process.env, ...launcher.environment }, stdio: ['ignore', 'pipe', 'pipe'] },
  );
}

function isThere(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch {
    return false;
  }
}

async function play(launcher: MpiLauncher, fault: string): Promise<Ended> {
  const child = start(launcher, fault);
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      output += text;
    });
  }
  const [exitCode]: (number | null)[] = await once(child, 'close');
  const said = Array.from(
    { length: size },
    (_, rank) => output.match(new RegExp(`^rank ${rank} says (.*)$`, 'm'))?.[1] ?? '',
  );
  return { exitCode: exitCode ?? null, output, said };
}

for (const found of findMpis()) {
  const title = 'missing' in found ? `${found.name} is not here: ${found.missing}` : found.name;
  describe.skipIf('missing' in found)(title, () => {
    if ('launcher' in found) endsJobs(found.launcher);
  });
}

function endsJobs(launcher: MpiLauncher): void {
  it('a job without failure ends with code 0, and MPI has nothing to complain of', async () => {
    const { exitCode, output } = await play(launcher, 'nothing');
    expect(output).toBe('');
    expect(exitCode).toBe(0);
  });

  it('an access out of bounds in WebAssembly is still a RuntimeError', async () => {
    const { exitCode, said } = await play(launcher, 'a trap');
    expect(said[1]).toContain('RuntimeError: memory access out of bounds');
    expect(exitCode).toBe(0);
  });

  it.each([
    ['throws', /rank 1 .*Error: out of coffee/],
    ['closes the group', /rank 1 .*the disk is full/],
    ['leaves', /rank 1 .*it closed the group/],
    ['is stopped', /rank 1 has not arrived/],
  ])('where a rank %s, the others say so and the job ends', async (fault, message) => {
    const { exitCode, said, output } = await play(launcher, fault);
    for (const rank of [0, 2]) expect(said[rank], output).toMatch(message);
    expect(exitCode).toBe(1);
  });

  it('where a rank calls another operation, all name both calls and the job ends', async () => {
    const { exitCode, said, output } = await play(launcher, 'calls another operation');
    for (const text of said) {
      expect(text, output).toMatch(/CollectiveMismatchError.*allReduce\(sum.*broadcast\(root 0/);
    }
    expect(exitCode).toBe(1);
  });

  it.each(['is killed', 'is killed inside a call'])(
    'where a rank %s, the job ends, and who outlives it says which rank it was',
    async (fault) => {
      const { exitCode, said } = await play(launcher, fault);
      expect(exitCode).not.toBe(0);
      // The launcher may have ended these ranks before they noticed the failure.
      for (const rank of [0, 2]) {
        expect(said[rank]).toMatch(/^$|rank 1 .*ended without closing the group/);
      }
    },
  );

  it('where their launcher is killed, no rank is left', async () => {
    const pids: number[] = [];
    const child = start(launcher, 'goes on');
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      for (const [, pid] of text.matchAll(/says pid (\d+)/g)) pids.push(Number(pid));
    });
    await expect.poll(() => pids.length).toBe(size);
    child.kill('SIGKILL');
    await expect.poll(() => pids.filter(isThere)).toEqual([]);
  });
}
