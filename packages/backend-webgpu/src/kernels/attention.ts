import type { Instruction } from '@shardwise/core/spec';
import type { Emitter } from '../emit/emitter.ts';
import { type Kernel, type KernelScope, spread } from '../emit/kernel.ts';
import { inputAt, type Values } from '../program/values.ts';
import {
  accumulate,
  type AttentionInstruction,
  type AttentionShape,
  type Features,
  forEachRow,
  loadFeatures,
  lowest,
  type RowTile,
  scoreOf,
  shapeOf,
  storeFeatures,
  storeNumber,
  THREADS,
  zeros,
} from './attention-parts.ts';

export function isAttention(instruction: Instruction): instruction is AttentionInstruction {
  return instruction.op.startsWith('attention');
}

/** The values that a kernel of attention writes, by the op of each. */
export type AttentionRoots = { readonly [Op in AttentionInstruction['op']]?: number };

/**
 * Attention, or some of its gradients, for the same inputs. Each thread has a query (or a key) and walks over all keys
 * (or queries) that it meets. A group has tiles of them in workgroup memory. Scores are not stored.
 */
export function attention(
  values: Values,
  instruction: AttentionInstruction,
  roots: AttentionRoots,
  reads: readonly number[],
): Kernel {
  const shape = shapeOf(values, instruction);
  const isOfKeys = roots.attentionKeyGrad !== undefined || roots.attentionValueGrad !== undefined;
  const { batch, heads, groups, keyBatch, queries, keys } = shape;
  const rows = isOfKeys ? keys : queries;
  const matrices = isOfKeys ? keyBatch * groups : batch * heads;
  const tile = tileOf(shape);
  return {
    label: Object.keys(roots).join(' and '),
    reads,
    writes: Object.values(roots),
    workgroup: [THREADS, 1],
    groups: spread(matrices * Math.ceil(rows / THREADS)),
    numbers: [],
    shared: [
      `var<workgroup> first_tile: array<vec4<f32>, ${tile * Math.ceil(shape.width / 4)}>;`,
      `var<workgroup> second_tile: array<vec4<f32>, ${Math.max(1, tile * Math.ceil(shape.valueWidth / 4))}>;`,
    ].join('\n'),
    body: (scope) => {
      const { emitter } = scope;
      const blocks = Math.ceil(rows / THREADS);
      const block = emitter.let('group.x + group.y * groups.x');
      emitter.line(`if (${block} >= ${matrices * blocks}u) { return; }`);
      const matrix = emitter.let(`${block} / ${blocks}u`);
      const first = emitter.let(`(${block} % ${blocks}u) * ${THREADS}u`);
      const row = emitter.let(`${first} + thread.x`);
      const place = { matrix, first, row, valid: emitter.let(`min(${row}, ${rows - 1}u)`) };
      const kernel = { scope, values, instruction, shape, roots, tile };
      if (isOfKeys) ofKeys(kernel, place);
      else if (instruction.op === 'attentionQueryGrad') ofQueries(kernel, place);
      else forward(kernel, place);
    },
  };
}

interface Written {
  readonly scope: KernelScope;
  readonly values: Values;
  readonly instruction: AttentionInstruction;
  readonly shape: AttentionShape;
  readonly roots: AttentionRoots;
  readonly tile: number;
}

/**
 * The row of a matrix that a thread has. Threads after the last row take part with the last row, because all threads of
 * a group wait for each other.
 */
interface Own {
  readonly matrix: string;
  readonly first: string;
  readonly row: string;
  readonly valid: string;
}

/** The number of rows of both tiles that fit into the workgroup memory that every device has. */
function tileOf({ width, valueWidth }: AttentionShape): number {
  const bytes = 16 * (Math.ceil(width / 4) + Math.ceil(valueWidth / 4));
  return Math.max(1, Math.min(16, Math.floor(16_384 / bytes)));
}

/** The item and the head of a query (`own`), and of the keys that it meets (`met`). */
function headsOf(
  emitter: Emitter,
  { heads, groups, keyBatch }: AttentionShape,
  matrix: string,
): { readonly own: readonly [string, string]; readonly met: readonly [string, string] } {
  const [item, head] = [emitter.let(`${matrix} / ${heads}u`), emitter.let(`${matrix} % ${heads}u`)];
  const group = heads === groups ? head : emitter.let(`${head} / ${heads / groups}u`);
  return { own: [item, head], met: [keyBatch === 1 ? '0u' : item, group] };
}

/** An expression for the end of the keys that some query of a group sees. */
function lastKey({ keys, causal }: AttentionShape, first: string): string {
  return causal ? `min(${keys}u, ${first} + ${THREADS}u)` : `${keys}u`;
}

function forward({ scope, instruction, shape, roots, tile }: Written, place: Own): void {
  const { emitter } = scope;
  const { own, met } = headsOf(emitter, shape, place.matrix);
  const isWhole = instruction.op === 'attention';
  const q = loadFeatures(emitter, inputAt(instruction, 0), [...own, place.valid], shape.width);
  const y: Features = isWhole ? zeros(emitter, shape.valueWidth) : [];
  const [largest, sum] = [emitter.fresh(), emitter.fresh()];
  emitter.line(`var ${largest} = ${lowest};`);
  emitter.line(`var ${sum} = 0f;`);
  const tiles: RowTile[] = [
    { name: 'first_tile', id: inputAt(instruction, 0 + 1), width: shape.width },
  ];
  if (isWhole)
    tiles.push({ name: 'second_tile', id: inputAt(instruction, 2), width: shape.valueWidth });
  const walk = { from: '0u', to: lastKey(shape, place.first), rows: shape.keys, tile };
  forEachRow(emitter, tiles, met, walk, (inner, key, [k = [], v = []]) => {
    const score = scoreOf(inner, { shape, own, query: place.valid, key, q, k });
    const [power, shrunk] = [inner.fresh(), inner.fresh()];
    inner.line(`if (${score.isSeen}) {`);
    inner.line(`if (${score.value} > ${largest}) {`);
    inner.line(`let ${shrunk} = exp_of(${largest} - ${score.value});`);
    inner.line(`${sum} *= ${shrunk};`);
    for (const part of y) inner.line(`${part} *= ${shrunk};`);
    inner.line(`${largest} = ${score.value};\n}`);
    inner.line(`let ${power} = exp_of(${score.value} - ${largest});`);
    inner.line(`${sum} += ${power};`);
    accumulate(inner, y, power, v);
    inner.line('}');
  });
  emitter.line(`if (${place.row} < ${shape.queries}u) {`);
  const stored = emitter.inner();
  const linear = stored.let(`${place.matrix} * ${shape.queries}u + ${place.row}`);
  if (roots.attention !== undefined) {
    // The result for a query that sees no key is 0.
    const factor = stored.let(`select(1f / ${sum}, 0f, ${sum} == 0f)`);
    storeFeatures(scope, stored, roots.attention, {
      linear,
      features: y,
      factor,
      width: shape.valueWidth,
    });
  }
  if (roots.attentionLogSumExp !== undefined) {
    const logSum = stored.let(
      `select(${largest} + log_of(${sum}), f32_of_bits(0x7f800000u), ${sum} == 0f)`,
    );
    storeNumber(scope, stored, roots.attentionLogSumExp, linear, logSum);
  }
  emitter.line(`${stored.text}\n}`);
}

/** The weight of a key for a query, and the gradient of their score, not yet multiplied by `scale`. */
function slopeOf(
  inner: Emitter,
  score: string,
  {
    logSum,
    delta,
    owed,
  }: { readonly logSum: string; readonly delta: string; readonly owed: string },
): { readonly weight: string; readonly slope: string } {
  // If a query sees no key, the logarithm of its sum is infinite.
  const isBlind = `bitcast<u32>(${logSum}) == 0x7f800000u`;
  const weight = inner.let(`select(exp_of(${score} - ${logSum}), 0f, ${isBlind})`);
  return { weight, slope: inner.let(`${weight} * (${owed} - ${delta})`) };
}

function dot(emitter: Emitter, a: Features, b: Features): string {
  const terms = a.map((part, i) => `dot(${part}, ${b[i] ?? 'vec4<f32>(0)'})`);
  return emitter.let(terms.length === 0 ? '0f' : terms.join(' + '));
}

function ofQueries({ scope, instruction, shape, roots, tile }: Written, place: Own): void {
  const { emitter } = scope;
  const root = roots.attentionQueryGrad;
  if (root === undefined) throw new RangeError('a kernel that makes nothing');
  const { own, met } = headsOf(emitter, shape, place.matrix);
  const at = [...own, place.valid];
  const q = loadFeatures(emitter, inputAt(instruction, 0), at, shape.width);
  const dy = loadFeatures(emitter, inputAt(instruction, 3), at, shape.valueWidth);
  const [logSum, delta] = [4, 5].map((i) => emitter.value(inputAt(instruction, i), { dims: at }));
  const dq = zeros(emitter, shape.width);
  const tiles: RowTile[] = [
    { name: 'first_tile', id: inputAt(instruction, 1), width: shape.width },
    { name: 'second_tile', id: inputAt(instruction, 2), width: shape.valueWidth },
  ];
  const walk = { from: '0u', to: lastKey(shape, place.first), rows: shape.keys, tile };
  forEachRow(emitter, tiles, met, walk, (inner, key, [k = [], v = []]) => {
    const score = scoreOf(inner, { shape, own, query: place.valid, key, q, k });
    inner.line(`if (${score.isSeen}) {`);
    const seen = inner.inner();
    const owed = dot(seen, dy, v);
    const { slope } = slopeOf(seen, score.value, {
      logSum: logSum ?? '',
      delta: delta ?? '',
      owed,
    });
    accumulate(seen, dq, slope, k);
    inner.line(`${seen.text}\n}`);
  });
  emitter.line(`if (${place.row} < ${shape.queries}u) {`);
  const stored = emitter.inner();
  const linear = stored.let(`${place.matrix} * ${shape.queries}u + ${place.row}`);
  storeFeatures(scope, stored, root, {
    linear,
    features: dq,
    factor: `${Math.fround(shape.scale)}f`,
    width: shape.width,
  });
  emitter.line(`${stored.text}\n}`);
}

/** Writes the gradients of keys and values, which are sums over all items and heads of queries that meet the keys. */
function ofKeys({ scope, instruction, shape, roots, tile }: Written, place: Own): void {
  const { emitter } = scope;
  const { heads, groups, batch, keyBatch, width, valueWidth, queries, causal } = shape;
  const met = [
    emitter.let(`${place.matrix} / ${groups}u`),
    emitter.let(`${place.matrix} % ${groups}u`),
  ];
  const k = loadFeatures(emitter, inputAt(instruction, 1), [...met, place.valid], width);
  const v = loadFeatures(emitter, inputAt(instruction, 2), [...met, place.valid], valueWidth);
  const { attentionKeyGrad, attentionValueGrad } = roots;
  const dk = attentionKeyGrad === undefined ? [] : zeros(emitter, width);
  const dv = attentionValueGrad === undefined ? [] : zeros(emitter, valueWidth);
  const tiles: RowTile[] = [
    { name: 'first_tile', id: inputAt(instruction, 0), width },
    { name: 'second_tile', id: inputAt(instruction, 3), width: valueWidth },
  ];
  const perGroup = heads / groups;
  const items = keyBatch === batch ? 1 : batch;
  const round = emitter.fresh();
  const loop = emitter.inner();
  const item = keyBatch === batch ? (met[0] ?? '0u') : loop.let(`${round} / ${perGroup}u`);
  const head = loop.let(`${met[1] ?? '0u'} * ${perGroup}u + ${round} % ${perGroup}u`);
  const own = [item, head] as const;
  // Queries before the first key of a group do not see any of its keys.
  const from = causal ? `${place.first} / ${tile}u * ${tile}u` : '0u';
  const walk = { from, to: `${queries}u`, rows: queries, tile };
  forEachRow(loop, tiles, own, walk, (inner, query, [q = [], dy = []]) => {
    const score = scoreOf(inner, { shape, own, query, key: place.valid, q, k });
    inner.line(`if (${score.isSeen}) {`);
    const seen = inner.inner();
    const [logSum, delta] = [4, 5].map((i) =>
      seen.value(inputAt(instruction, i), { dims: [...own, query] }),
    );
    const owed = dot(seen, v, dy);
    const numbers = { logSum: logSum ?? '', delta: delta ?? '', owed };
    const { weight, slope } = slopeOf(seen, score.value, numbers);
    accumulate(seen, dk, slope, q);
    accumulate(seen, dv, weight, dy);
    inner.line(`${seen.text}\n}`);
  });
  emitter.line(
    `for (var ${round} = 0u; ${round} < ${items * perGroup}u; ${round}++) {\n${loop.text}\n}`,
  );
  emitter.line(`if (${place.row} < ${shape.keys}u) {`);
  const stored = emitter.inner();
  const linear = stored.let(`${place.matrix} * ${shape.keys}u + ${place.row}`);
  if (attentionKeyGrad !== undefined) {
    const factor = `${Math.fround(shape.scale)}f`;
    storeFeatures(scope, stored, attentionKeyGrad, { linear, features: dk, factor, width });
  }
  if (attentionValueGrad !== undefined) {
    const sums = { linear, features: dv, factor: '1f', width: valueWidth };
    storeFeatures(scope, stored, attentionValueGrad, sums);
  }
  emitter.line(`${stored.text}\n}`);
}
