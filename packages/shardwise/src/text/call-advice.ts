/** Names of PyTorch's tensors that have another name here, with what to write. */
const renamed: Readonly<Record<string, string>> = {
  view: 'reshape([…])',
  size: 'shape',
  dim: 'ndim',
  numpy: 'await data()',
  tolist: 'await data()',
  cpu: 'await data(). init({ device }) says where tensors are',
  cuda: 'nothing: init({ device }) says where tensors are',
};

/** Methods of models, tokenizers, contexts and tensors, which a promise of one lacks. */
const awaited: ReadonlySet<string> = new Set([
  'applyChatTemplate',
  'backward',
  'close',
  'decode',
  'encode',
  'encodeBatch',
  'eval',
  'forward',
  'namedParameters',
  'parameters',
  'report',
  'saveCheckpoint',
  'shouldStop',
  'stateDict',
  'train',
]);

/**
 * Returns what to write instead of a call that failed, if it looks like one of PyTorch's (`model(x)`, `x.view(2)` or
 * `x.masked_fill(…)`), or lacks an `await`: the engine's message does not say it.
 */
export function callAdvice(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined;
  // Messages of core call it so: `addLora with model: a Promise: a value that is not a Module`.
  if (/\ba Promise\b/.test(error.message)) {
    return 'A Promise is what an async function returns at once. Write await before its call, as in const model = await fromPretrained(…)';
  }
  // An error of a process is a copy, whose class is Error.
  if (error.name !== 'TypeError') return undefined;
  const [, callee = ''] = /^(\S+) is not a function$/.exec(error.message) ?? [];
  const name = callee.split('.').at(-1) ?? '';
  if (name === '') return undefined;
  const here = Object.hasOwn(renamed, name) && callee !== name ? renamed[name] : undefined;
  if (here !== undefined) return `PyTorch's ${name} is written in another way: ${here}`;
  if (/^[a-z]+(_[a-z\d]+)+$/.test(name)) {
    const camelCase = name.replaceAll(/_([a-z\d])/g, (_, letter: string) => letter.toUpperCase());
    return `Names are in camelCase: ${camelCase}`;
  }
  if (awaited.has(name) && callee !== name) {
    const owner = callee.slice(0, -name.length - 1);
    return `If ${owner} is a Promise, as init(), fromPretrained(…) and parallelize(…) return it, await it: const ${owner.split('.').at(-1)} = await …`;
  }
  return `If ${callee} is a module, call its forward: ${callee}.forward(…)`;
}
