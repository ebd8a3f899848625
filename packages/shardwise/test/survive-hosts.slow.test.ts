import { mkdtemp } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, it } from 'vitest';
import { Command, freePort } from './command.ts';
import { childrenOf, randomNumbers } from './disturbed-run.ts';
import type { DivisionName } from './fixtures/survive-training.ts';
import {
  expectBits,
  lastStepOf,
  mostRepeatedSteps,
  printedRun,
  stretchesOf,
  survivorScript,
} from './survivals.ts';

const HOSTS = 3;
/** The ranks of a host. One of each part of the state, so that a host is a replica. */
const RANKS = 2;
const env = { SHARDWISE_SECRET: 'a secret of this test alone' };

/** Launchers on this machine, as hosts that come and go. The first one leads, and stays. */
class Hosts {
  readonly all: Command[] = [];
  readonly #command: (host: number) => readonly string[];
  readonly #cwd: string;
  readonly #living: Command[];

  constructor(args: readonly string[], script: readonly string[], cwd: string) {
    this.#command = (host) => args.concat('--node-rank', String(host), '--run-dir', 'out', script);
    this.#cwd = cwd;
    this.#living = Array.from({ length: HOSTS }, (_, host) => this.#start(host));
  }

  get living(): readonly Command[] {
    return this.#living;
  }

  /** What all ranks have printed, also those of hosts that are gone. */
  get stdout(): string {
    return this.all.map(({ stdout }) => stdout).join('\n');
  }

  /** The number of ranks that train together, as the ranks of the first host know it. */
  get worldSize(): number {
    return printedRun(this.#first.stdout).beginnings.at(-1)?.worldSize ?? 0;
  }

  get #first(): Command {
    const [first] = this.all;
    if (first === undefined) throw new RangeError('no host');
    return first;
  }

  /** Kills a launcher, which ends its ranks, and starts another one. */
  async replace(host: number): Promise<void> {
    const lost = this.#living[host];
    this.#living[host] = await this.#missed(() => {
      lost?.kill('SIGKILL');
      return this.#start(host);
    });
  }

  /** Stops a launcher until the others go on without its ranks. */
  async cutOff(host: number): Promise<void> {
    const cut = this.#living[host];
    await this.#missed(() => cut?.kill('SIGSTOP'));
    cut?.kill('SIGCONT');
  }

  /** Does something to a host, and waits until the first one says that it is lost, and its ranks go on. */
  async #missed<Done>(act: () => Done): Promise<Done> {
    const count = (): number =>
      [...this.#first.output.matchAll(/node \d \(.*?\) was lost/g)].length;
    const before = count();
    const done = act();
    while (count() === before || this.worldSize === HOSTS * RANKS) await sleep(20);
    return done;
  }

  #start(host: number): Command {
    const started = new Command(this.#command(host), { cwd: this.#cwd, env });
    this.all.push(started);
    return started;
  }
}

/** Has ranks and hosts of a run lost at random moments, and expects the bits of one without faults. */
async function survivesLosses(division: DivisionName, losses: number): Promise<void> {
  const cwd = await mkdtemp(join(tmpdir(), 'shardwise-survive-hosts-'));
  const script = survivorScript({ steps: 1_000_000, pauseMs: 50, folder: cwd, division });
  const meeting = ['--rdzv', `127.0.0.1:${await freePort()}`, '--nnodes', String(HOSTS)];
  const ranks = ['--nproc', String(RANKS), '--min-nproc', String(RANKS)];
  const args = ['run', ...meeting, ...ranks, '--max-restarts', String(losses)];
  const hosts = new Hosts(args, script, cwd);
  const random = randomNumbers(losses);
  const choose = (count: number, from = 0): number => from + Math.floor(random() * (count - from));
  const goesOn = async (steps: number): Promise<void> => {
    const before = lastStepOf(hosts);
    while (lastStepOf(hosts) < before + steps) await sleep(20);
  };
  const kinds = { rank: 0, host: 0, cut: 0 };
  for (let loss = 0; loss < losses; loss += 1) {
    const kind = random();
    // Two replicas at least are there, so that each part of the state is left, whoever is lost. Only a host that has come
    // can be missed.
    const least = kind >= 0.5 || random() < 0.5 ? HOSTS * RANKS : 2 * RANKS;
    while (hosts.worldSize < least) await sleep(50);
    await goesOn(1 + choose(5));
    await sleep(random() * 300);
    if (hosts.worldSize < least) continue;
    if (kind < 0.5) {
      const pids = await childrenOf(hosts.living[choose(HOSTS)]?.pid ?? 0);
      const pid = pids[choose(pids.length)];
      if (pid === undefined) continue;
      process.kill(pid, 'SIGKILL');
      kinds.rank += 1;
    } else if (kind < 0.8) {
      await hosts.replace(choose(HOSTS, 1));
      kinds.host += 1;
    } else {
      await hosts.cutOff(choose(HOSTS, 1));
      kinds.cut += 1;
    }
  }
  while (hosts.worldSize < HOSTS * RANKS) await sleep(50);
  await goesOn(5);
  const [first, ...others] = hosts.living;
  first?.kill('SIGINT');
  expect(await first?.ended(), first?.output).toBe(130);
  for (const other of others) expect(await other.ended(), other.output).toBe(0);
  expect(first?.output).not.toContain('Starting again');
  const found = printedRun(hosts.stdout);
  const total = lastStepOf(hosts);
  const stretches = stretchesOf(found, total);
  console.log(`${division}: ${JSON.stringify({ total, stretches: stretches.length, ...kinds })}`);
  for (const { stdout } of hosts.all) {
    expect(mostRepeatedSteps(printedRun(stdout))).toBeLessThanOrEqual(1);
  }
  await expectBits(found, stretches, join(cwd, 'out', 'metrics.jsonl'), division);
}

describe('--min-nproc on several hosts', { timeout: 3_600_000 }, () => {
  it.each([
    ['ddp', 12],
    ['hsdp', 8],
  ] as const)(
    'leaves the bits of a run of %s on 3 hosts without faults after %d losses of ranks and hosts',
    survivesLosses,
  );
});
