import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestHost } from '@shardwise/testing/hosts';
import type { Ended } from '../support/run-command.ts';
import { exampleScript, runShardwise, type RunShardwiseOptions } from '../support/run-shardwise.ts';

const text = Array.from(
  { length: 300 },
  (_, line) => `${line}. the quick brown fox jumps over ${(line * line) % 97} lazy dogs`,
).join('\n');

const model =
  '--data text.txt --layers 2 --heads 2 --channels 32 --context-length 32 --warmup-steps 2'.split(
    ' ',
  );

export interface HostsRunOptions {
  readonly when?: RunShardwiseOptions['when'];
  readonly maxRestarts?: number;
}

/** Runs of the GPT example in a folder of their own. The model is small enough for a test. */
export class GptRuns implements AsyncDisposable {
  readonly directory: string;
  readonly #script: readonly string[];

  private constructor(directory: string, options: readonly string[]) {
    this.directory = directory;
    this.#script = [exampleScript, ...model, ...options];
  }

  /** Creates the folder. `options` are the example's own options. */
  static async create(options: readonly string[]): Promise<GptRuns> {
    const directory = await mkdtemp(join(tmpdir(), 'shardwise-hosts-'));
    await writeFile(join(directory, 'text.txt'), text);
    return new GptRuns(directory, options);
  }

  onOneHost(runDirectory: string): Promise<Ended> {
    return this.#run(['--nproc', '4', '--run-dir', runDirectory], {});
  }

  /**
   * Starts two ranks on each host. The run directory of node 0 is the one that counts, and `when` applies to node 0.
   * `maxRestarts` is 0 by default.
   */
  onHosts(
    hosts: readonly TestHost[],
    runDirectory: string,
    { when, maxRestarts = 0 }: HostsRunOptions = {},
  ): readonly Promise<Ended>[] {
    const meeting = ['--nnodes', String(hosts.length), '--rdzv', `${hosts[0]?.address}:29400`];
    const rendezvous = [...meeting, '--max-restarts', String(maxRestarts)];
    const variables = { SHARDWISE_SECRET: 'the secret of a test' };
    return hosts.map((host, node) => {
      const place = ['--nproc', '2', ...rendezvous, '--node-rank', String(node)];
      const words = [...place, '--run-dir', node === 0 ? runDirectory : `${runDirectory}-${node}`];
      const options = { host, variables };
      return this.#run(words, node === 0 && when !== undefined ? { ...options, when } : options);
    });
  }

  [Symbol.asyncDispose](): Promise<void> {
    return rm(this.directory, { recursive: true, force: true });
  }

  #run(words: readonly string[], options: Omit<RunShardwiseOptions, 'cwd'>): Promise<Ended> {
    const args = ['run', '--plain', ...words, ...this.#script];
    return runShardwise(args, { cwd: this.directory, ...options });
  }
}
