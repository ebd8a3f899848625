// Texts that llama.cpp makes, by node-llama-cpp, when it is told to. Arguments: the folder where it is installed, a GGUF file, the
// number of threads, of sequences, and of tokens of each. Each line of the standard input is a request, each of the standard output
// its answer, as bench/serve/contestants.ts describes them. The first line describes it.
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';

const [, , folder, modelPath, ...numbers] = process.argv;
const [threads, sequences, contextSize] = numbers.map(Number);
const require = createRequire(join(folder, 'package.json'));
const say = (object) => process.stdout.write(`${JSON.stringify(object)}\n`);
for (const name of ['log', 'info', 'debug']) console[name] = console.error;

const { version } = require(join(folder, 'node_modules/node-llama-cpp/package.json'));
const { getLlama } = await import(pathToFileURL(require.resolve('node-llama-cpp')).href);
// Only what is installed with it, which is built for this processor's instructions.
const llama = await getLlama({ gpu: false, build: 'never', maxThreads: threads });
const model = await llama.loadModel({ modelPath });
const contextOf = (count) =>
  model.createContext({
    sequences: count,
    contextSize,
    batchSize: 512,
    threads: { ideal: threads, min: threads },
  });
const contexts = { alone: await contextOf(1), together: await contextOf(sequences) };
say({ about: `node-llama-cpp ${version}, release ${llama.llamaCppRelease.release}` });

const textOf = async (context, prompt, generated) => {
  const sequence = context.getSequence();
  const tokens = [];
  try {
    for await (const token of sequence.evaluate(prompt, { temperature: 0, yieldEogToken: true })) {
      tokens.push(token);
      if (tokens.length === generated) break;
    }
  } finally {
    await sequence.clearHistory();
    sequence.dispose();
  }
  return tokens;
};

for await (const line of createInterface({ input: process.stdin })) {
  const { prompts, generated, together } = JSON.parse(line);
  const before = process.cpuUsage();
  const start = performance.now();
  const tokens = [];
  if (together) {
    const texts = prompts.map((prompt) => textOf(contexts.together, prompt, generated));
    tokens.push(...(await Promise.all(texts)));
  } else {
    for (const prompt of prompts) tokens.push(await textOf(contexts.alone, prompt, generated));
  }
  const ms = performance.now() - start;
  const { user, system } = process.cpuUsage(before);
  say({ ms, cpuMs: (user + system) / 1000, tokens });
}
for (const context of Object.values(contexts)) await context.dispose();
await llama.dispose();
