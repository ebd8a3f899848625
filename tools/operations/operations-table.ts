import { Tensor } from '@shardwise/core';

/** The sections of methods, by the class that has them. */
const sections: Readonly<Record<string, string>> = {
  BinaryMethods: 'Pointwise',
  UnaryMethods: 'Pointwise',
  ReductionMethods: 'Reductions',
  MovementMethods: 'Indexing and shape',
  IndexingMethods: 'Indexing and shape',
};

/** The sections of methods that a reader looks for elsewhere than among those of their class. */
const otherSections: Readonly<Record<string, string>> = {
  where: 'Indexing and shape',
  to: 'Indexing and shape',
  softmax: 'Pointwise',
  logSoftmax: 'Pointwise',
  layerNorm: 'Pointwise',
  rmsNorm: 'Pointwise',
  matmul: 'Products',
  groupedMatmul: 'Products',
  dot: 'Products',
  outer: 'Products',
  detach: 'Autograd',
};

/** PyTorch's names of methods, where they are not `torch.` and our name in snake case. */
const otherNames: Readonly<Record<string, string>> = {
  at: 'x[1, 0:2, ..., None, index]',
  slice: 'torch.Tensor.narrow',
  T: 'torch.Tensor.T',
  mT: 'torch.Tensor.mT',
  expand: 'torch.Tensor.expand',
  repeat: 'torch.Tensor.repeat',
  detach: 'torch.Tensor.detach',
  to: 'torch.Tensor.to',
  uniqueWithCounts: 'torch.unique(return_counts=True)',
  takeRows: 'x[:count]',
  fillRows: 'F.pad(x, (0, 0, 0, rows - len(x)))',
  isNaN: 'torch.isnan',
  isFinite: 'torch.isfinite',
  isInf: 'torch.isinf',
  variance: 'torch.var',
  norm: 'torch.linalg.vector_norm',
  logSumExp: 'torch.logsumexp',
  max: 'torch.amax',
  min: 'torch.amin',
  maxWithIndices: 'torch.max',
  minWithIndices: 'torch.min',
  argMax: 'torch.argmax',
  argMin: 'torch.argmin',
  argSort: 'torch.argsort',
  cumProd: 'torch.cumprod',
  topK: 'torch.topk',
  binCount: 'torch.bincount',
  groupedMatmul: 'torch._grouped_mm',
};

/** The methods that PyTorch has in torch.nn.functional. */
const ofFunctional: ReadonlySet<string> = new Set([
  'elu',
  'gelu',
  'hardtanh',
  'layerNorm',
  'leakyRelu',
  'mish',
  'oneHot',
  'pad',
  'rmsNorm',
  'silu',
  'softplus',
]);

/** Returns the operations of tensors, in the order in which their classes have them, with their sections. */
function operations(): readonly { readonly name: string; readonly section: string }[] {
  const found: { name: string; section: string }[] = [];
  // The classes with the operations are between Tensor and the class that has its state.
  let prototype: unknown = Object.getPrototypeOf(Tensor.prototype);
  while (prototype instanceof Object && Object.getPrototypeOf(prototype) !== Object.prototype) {
    const own = sections[prototype.constructor.name];
    if (own === undefined) throw new RangeError(`no section of ${prototype.constructor.name}`);
    const names = Object.getOwnPropertyNames(prototype).filter((name) => name !== 'constructor');
    found.unshift(...names.map((name) => ({ name, section: otherSections[name] ?? own })));
    prototype = Object.getPrototypeOf(prototype);
  }
  return found;
}

function nameInPyTorch(name: string): string {
  const snake = name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
  return otherNames[name] ?? `torch.${ofFunctional.has(name) ? 'nn.functional.' : ''}${snake}`;
}

/**
 * Writes the rows of all operations of tensors into the tables of a document, section by section. Rows of functions, which
 * people write, stay where they are, before those of operations.
 */
export function withOperations(document: string): string {
  const all = operations();
  const shown = new Set(all.map(({ name }) => `\`x.${name}\``));
  return document
    .split(/^(?=## )/m)
    .map((section) => {
      const [, title = ''] = /^## (.*)$/m.exec(section) ?? [];
      const rows = all
        .filter((each) => each.section === title)
        .map(({ name }) => [`\`${nameInPyTorch(name)}\``, `\`x.${name}\``]);
      return section.replace(/(?:^\|.*\n)+/m, (table) => {
        const [head = [], , ...body] = table.trimEnd().split('\n').map(cellsOf);
        return tableOf([head, ...body.filter(([, ours = '']) => !shown.has(ours)), ...rows]);
      });
    })
    .join('');
}

function cellsOf(row: string): readonly string[] {
  return row
    .slice(1, -1)
    .split('|')
    .map((cell) => cell.trim());
}

/** Formats a table of two columns as the formatter of the repository does. The first row is the head. */
function tableOf(rows: readonly (readonly string[])[]): string {
  const width = (column: number): number =>
    Math.max(...rows.map((cells) => (cells[column] ?? '').length));
  const line = (cells: readonly string[], fill = ' '): string =>
    `| ${[0, 1].map((column) => (cells[column] ?? '').padEnd(width(column), fill)).join(' | ')} |\n`;
  const [head = [], ...body] = rows;
  return [line(head), line(['', ''], '-'), ...body.map((cells) => line(cells))].join('');
}
