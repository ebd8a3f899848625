import type { ChildProcess } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { createHosts, type TestHosts } from '@shardwise/testing/hosts';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { slowly, titled, unavailable } from './availability.ts';
import { GptRuns } from './gpt-runs.ts';

/** The duration of a cut in milliseconds. It is longer than every limit of heartbeats. */
const CUT_MS = 5000;

/**
 * The error of the other host about a host whose link is cut. The heartbeats of its ranks have the shorter limit, but
 * on a busy machine its launcher may be missed first.
 */
const missing = (node: number, ranks: string): string =>
  `(?:Rank [${ranks}] on node ${node} \\(host${node}\\) failed: .*no heartbeat for|Node ${node} \\(host${node}\\) failed: its launcher gave no sign of life for)`;

const STORE = 'store 10\\.77\\.0\\.1:29400';

/**
 * The error of host 1. It usually notices last that host 0, which is cut off, served the store. On a busy machine it
 * may notice that first.
 */
const withoutStore = `(?:${missing(0, '01')}.*${STORE} failed as well|The host of the ${STORE} failed): no answer for \\d+ ms`;

const title = titled('a run on 2 hosts x 2 ranks that would go on for ever');

describe.skipIf(unavailable !== undefined)(title, slowly, () => {
  let made: TestHosts;
  let runs: GptRuns;

  beforeEach(async () => {
    runs = await GptRuns.create(['--steps', '1000000', '--validate-every', '1000000']);
    made = await createHosts(2);
  });

  afterEach(async () => {
    await made[Symbol.asyncDispose]();
    await runs[Symbol.asyncDispose]();
  });

  const noProcesses = (host: number): Promise<void> =>
    vi.waitFor(async () => expect(await made.hosts[host]?.processIds()).toEqual([]), {
      timeout: 20_000,
    });

  it('when a link is cut, both hosts end and name the other one', async () => {
    let cutMs = 0;
    const cutLink = async (_: ChildProcess): Promise<void> => {
      cutMs = performance.now();
      await made.hosts[1]?.cut();
    };
    const cut = { prints: 'step 1/', act: cutLink };
    const [first, second] = await Promise.all(
      runs.onHosts(made.hosts, 'run', { when: cut }).map(async (run, node) => {
        const ended = await run;
        console.log(`node ${node} ended ${Math.round(performance.now() - cutMs)} ms after the cut`);
        return ended;
      }),
    );
    expect(first?.exitCode, first?.output).toBe(1);
    expect(first?.stderr).toMatch(new RegExp(missing(1, '23')));
    expect(second?.exitCode, second?.output).toBe(1);
    expect(second?.stderr).toMatch(new RegExp(withoutStore));
    await noProcesses(1);
  });

  it('when the launcher of a host is killed, its ranks end with it, and the other host names it', async () => {
    const killLauncher = async (): Promise<void> => {
      const [launcher] = (await made.hosts[1]?.processIds()) ?? [];
      if (launcher !== undefined) process.kill(launcher, 'SIGKILL');
    };
    const kill = { prints: 'step 1/', act: killLauncher };
    const [first] = await Promise.all(runs.onHosts(made.hosts, 'run', { when: kill }));
    expect(first?.exitCode, first?.output).toBe(1);
    // Either a rank of the host is missed first or, on a busy machine, its launcher.
    expect(first?.stderr).toMatch(/[Nn]ode 1 \(host1\) failed: /);
    await noProcesses(1);
  });
});

describe.skipIf(unavailable !== undefined)(titled('a run on 2 hosts x 2 ranks'), slowly, () => {
  it('whose link is cut until both hosts have given up the other starts again when it is whole', async () => {
    const script = ['--steps', '30', '--validate-every', '1000000'];
    await using runs = await GptRuns.create(script);
    await using made = await createHosts(2);
    const cutForAWhile = async (): Promise<void> => {
      await made.hosts[1]?.cut();
      await sleep(CUT_MS);
      await made.hosts[1]?.restore();
    };
    const when = { prints: 'step 1/', act: cutForAWhile };
    const ended = await Promise.all(runs.onHosts(made.hosts, 'run', { when, maxRestarts: 1 }));
    for (const [node, { exitCode, output, stderr }] of ended.entries()) {
      expect(exitCode, output).toBe(0);
      const other = node === 0 ? missing(1, '23') : `(?:${missing(0, '01')}|${withoutStore})`;
      const again = '[^]*Starting again \\(restart 1 of 1\\) with 4 ranks';
      expect(stderr).toMatch(new RegExp(other + again));
    }
    expect(ended[1]?.stderr).toMatch(
      /Node 0, which leads the run at 10\.77\.0\.1:29400, gives no answer for \d+ ms\./,
    );
  });
});
