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

/**
 * Returns what to write instead of a call that failed, if it looks like one of PyTorch's: `model(x)`, `x.view(2)` or
 * `x.masked_fill(…)`. The engine's message does not say it.
 */
export function callAdvice(error: unknown): string | undefined {
  // An error of a process is a copy, whose class is Error.
  if (!(error instanceof Error) || error.name !== 'TypeError') return undefined;
  const [, callee = ''] = /^(\S+) is not a function$/.exec(error.message) ?? [];
  const name = callee.split('.').at(-1) ?? '';
  if (name === '') return undefined;
  const here = Object.hasOwn(renamed, name) && callee !== name ? renamed[name] : undefined;
  if (here !== undefined) return `PyTorch's ${name} is written in another way: ${here}`;
  if (/^[a-z]+(_[a-z\d]+)+$/.test(name)) {
    const camelCase = name.replaceAll(/_([a-z\d])/g, (_, letter: string) => letter.toUpperCase());
    return `Names are in camelCase: ${camelCase}`;
  }
  return `If ${callee} is a module, call its forward: ${callee}.forward(…)`;
}
