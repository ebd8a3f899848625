// A library of pages in a process of its own, which computes only while it is asked to. Each line of the standard input is a request,
// each of the standard output its answer.
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { pathToFileURL } from 'node:url';

const [, , folder, chosen = 'wasm'] = process.argv;
const require = createRequire(join(folder, 'package.json'));

/** 'wasm', or 'webgpu': Node has no navigator.gpu, so Dawn takes its place. */
export const device = chosen;
if (device === 'webgpu') {
  const { create, globals } = await import('webgpu');
  Object.assign(globalThis, globals);
  Object.defineProperty(globalThis.navigator, 'gpu', { value: create([]) });
}

/** The standard output is for answers alone: what a library writes there goes elsewhere. */
const say = (text) => process.stdout.write(`${text}\n`);
for (const name of ['log', 'info', 'debug']) console[name] = console.error;

/** The path of a file of a package that is installed in the folder. */
export const resolve = (name) => require.resolve(name);

/** A package that is installed in the folder. */
export const load = (name) => import(pathToFileURL(resolve(name)).href);

/** The weights of a GPT, in the order in which it takes them: normal values, or one value. */
export const sizesOf = ({ layers, channels, context, vocabulary }) => {
  const normal = (...shape) => ({ shape, deviation: 0.02 });
  const constant = (value, ...shape) => ({ shape, value });
  const linear = (from, to) => [normal(from, to), constant(0, to)];
  const norm = () => [constant(1, channels), constant(0, channels)];
  const block = () => [
    ...norm(),
    ...linear(channels, 3 * channels),
    ...linear(channels, channels),
    ...norm(),
    ...linear(channels, 4 * channels),
    ...linear(4 * channels, channels),
  ];
  return [
    normal(vocabulary, channels),
    normal(context, channels),
    ...Array.from({ length: layers }, block).flat(),
    ...norm(),
    ...linear(channels, vocabulary),
  ];
};

/** Pseudorandom values of a weight, the same in each run. */
export const valuesOf = ({ shape, deviation, value }, seed) => {
  const length = shape.reduce((product, size) => product * size, 1);
  if (value !== undefined) return new Float32Array(length).fill(value);
  let state = seed + 1;
  const uniform = () => {
    state = (Math.imul(state, 1664525) + 1013904223) | 0;
    return ((state >>> 8) + 1) / 2 ** 24;
  };
  return Float32Array.from(
    { length },
    () => deviation * Math.sqrt(-2 * Math.log(uniform())) * Math.cos(2 * Math.PI * uniform()),
  );
};

/**
 * Answers requests: `{ kind: 'matmul', size, together, runs }` by `matmul`, which makes a function that multiplies so many times, and
 * `{ kind: 'train', model, runs }` by `train`, which makes one that does a step and returns the loss. A model stays as it is from
 * request to request. No run begins after `mostMs`. The answer has the time of each run, and the mean time of the processor.
 */
export async function serve({ about, matmul, train }) {
  say(JSON.stringify({ about }));
  const made = new Map();
  const get = async (key, make) => {
    if (!made.has(key)) made.set(key, await make());
    return made.get(key);
  };
  for await (const line of createInterface({ input: process.stdin })) {
    const request = JSON.parse(line);
    const answer = { ms: [], losses: [] };
    try {
      const { kind, size, together = 1, model, runs, mostMs = Infinity } = request;
      const run =
        kind === 'matmul'
          ? await get(`matmul ${size} ${together}`, () => matmul(size, together))
          : await get(`train ${model.name}`, () => train(model));
      const before = process.cpuUsage();
      const begun = performance.now();
      for (let index = 0; index < runs; index++) {
        if (index > 0 && performance.now() - begun > mostMs) break;
        const start = performance.now();
        const loss = await run();
        answer.ms.push(performance.now() - start);
        if (kind === 'train') answer.losses.push(loss);
      }
      const { user, system } = process.cpuUsage(before);
      answer.cpuMs = (user + system) / 1000 / answer.ms.length;
      say(JSON.stringify(answer));
    } catch (error) {
      say(JSON.stringify({ reason: String(error?.message ?? error).split('\n')[0] }));
    }
  }
  // A device that is still open keeps the process alive.
  if (device === 'webgpu') process.exit();
}
