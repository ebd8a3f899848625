import { Engine } from '@shardwise/serve';
import { fromPretrained } from '@shardwise/models/node';
import { z } from 'zod';
import { type LineProcess, startLineProcess } from '../line-process.ts';
import { startPython } from '../peer.ts';

/** Texts to make, greedily and all of the same length. */
export interface TextsRequest {
  /** The tokens of prompts, as many of each. */
  readonly prompts: readonly (readonly number[])[];
  readonly generated: number;
  /** All at once, or one after the other. */
  readonly together: boolean;
}

const texts = z.object({
  ms: z.number().positive(),
  /** The processor time of all threads. */
  cpuMs: z.number(),
  tokens: z.array(z.array(z.number())),
});
export type Texts = z.infer<typeof texts>;

/** What makes texts when it is asked to. */
export interface Contestant {
  readonly name: string;
  readonly about: string;
  texts(request: TextsRequest): Promise<Texts>;
  close(): Promise<void>;
}

/** A contestant, or why it is not there. */
export type ContestantOrReason = Contestant | { readonly name: string; readonly reason: string };

/** What contestants work on: a GGUF file, and the most sequences and tokens of a sequence. */
export interface ContestantTask {
  readonly file: string;
  readonly threads: number;
  readonly sequences: number;
  readonly tokens: number;
}

/** What weights are kept in: the blocks of the file, or a dtype. */
export type OurWeights = 'file' | 'f32' | 'bf16';
export const ourWeights: readonly OurWeights[] = ['file', 'f32', 'bf16'];

/** An engine in this process, on the device of its rank. */
export async function startOurs(
  { file, sequences, tokens }: ContestantTask,
  weights: OurWeights,
): Promise<Contestant> {
  const kept = weights === 'file' ? { quantized: true } : { dtype: weights };
  const model = await fromPretrained(file, kept);
  const engine = new Engine(model, null, {
    maxSequences: sequences,
    cacheTokens: sequences * (tokens + 16),
    // The same prompts come again and again.
    prefixCaching: false,
  });
  const textOf = async (prompt: readonly number[], maxNewTokens: number): Promise<number[]> => {
    const own: number[] = [];
    const request = { prompt, maxNewTokens, temperature: 0, ignoreEos: true };
    for await (const { token } of engine.generate(request)) if (token !== null) own.push(token);
    return own;
  };
  return {
    name: `ours, weights in ${weights === 'file' ? 'the blocks of the file' : weights}`,
    about: `@shardwise/serve, ${weights}`,
    texts: async ({ prompts, generated, together }) => {
      const cpu = process.cpuUsage();
      const start = performance.now();
      const own: number[][] = [];
      if (together)
        own.push(...(await Promise.all(prompts.map((each) => textOf(each, generated)))));
      else for (const each of prompts) own.push(await textOf(each, generated));
      const ms = performance.now() - start;
      const { user, system } = process.cpuUsage(cpu);
      return { ms, cpuMs: (user + system) / 1000, tokens: own };
    },
    close: () => engine.dispose(),
  };
}

/** llama.cpp, from the folder of packages that SHARDWISE_PEER_PACKAGES names. */
export async function startLlamaCpp(task: ContestantTask): Promise<ContestantOrReason> {
  const name = 'node-llama-cpp';
  const folder = process.env['SHARDWISE_PEER_PACKAGES'];
  if (folder === undefined || folder === '') {
    return { name, reason: 'SHARDWISE_PEER_PACKAGES is not set to a folder where it is installed' };
  }
  const { file, threads, sequences, tokens } = task;
  const path = new URL('../peers/node-llama-cpp.mjs', import.meta.url).pathname;
  const args = [path, folder, file, ...[threads, sequences, tokens].map(String)];
  return startPeer(name, startLineProcess(name, process.execPath, args, process.env));
}

/** Python's transformers, with the interpreter that SHARDWISE_PEER_PYTHON names. */
export async function startTransformers({
  file,
  threads,
}: ContestantTask): Promise<ContestantOrReason> {
  const name = 'transformers';
  const started = startPython('transformers_serve.py', [file, String(threads)]);
  return 'reason' in started ? { name, ...started } : startPeer(name, started.process);
}

async function startPeer(name: string, process: LineProcess): Promise<ContestantOrReason> {
  try {
    const { about } = z.object({ about: z.string() }).parse(await process.next());
    return {
      name,
      about,
      texts: async (request) => texts.parse(await process.ask(request)),
      close: () => process.close(),
    };
  } catch (error) {
    return { name, reason: String(error) };
  }
}
