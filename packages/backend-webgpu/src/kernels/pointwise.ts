import { type Emitter } from '../emit/emitter.ts';
import { type Kernel, type KernelScope, spread } from '../emit/kernel.ts';
import { type Values, countOf } from '../program/values.ts';
import { storageOf } from '../wgsl/registers.ts';

const LANES = 64;

/** Computes an element of a root in the scope of an emitter. By default it does so by the root's instruction. */
export type ElementOf = (emitter: Emitter, root: number, linear: string) => string;

const computed: ElementOf = (emitter, root, linear) => emitter.compute(root, { linear });
const known: ElementOf = (emitter, root, linear) =>
  emitter.known(root, { linear }) ?? emitter.compute(root, { linear });

/** Makes values of equally many elements. A thread makes one element of each, or the elements of one word. */
export function pointwise(
  values: Values,
  roots: readonly number[],
  reads: readonly number[],
  label: string,
  elementOf: ElementOf = computed,
): Kernel {
  const [first = 0] = roots;
  const count = countOf(values.shape(first));
  // A thread makes whole words.
  const perThread = Math.max(
    ...roots.map((root) => 4 / Math.min(4, storageOf[values.type(root).dtype].bytes)),
  );
  const threads = Math.ceil(count / perThread);
  return {
    label,
    reads,
    writes: roots,
    workgroup: [LANES, 1],
    groups: spread(Math.ceil(threads / LANES)),
    numbers: [count],
    along: { dim: 'all', elements: LANES * perThread },
    ...(elementOf === computed ? { pointwise: { roots, count } } : {}),
    body: (scope) => {
      const { emitter, number } = scope;
      const thread = emitter.let(`(group.x + group.y * groups.x) * ${LANES}u + thread.x`);
      if (perThread === 1) {
        emitter.line(`if (${thread} >= ${number(0)}) { return; }`);
        storeElements(scope, values, roots, thread, emitter, elementOf);
        return;
      }
      const first = emitter.let(`${thread} * ${perThread}u`);
      emitter.line(`if (${first} >= ${number(0)}) { return; }`);
      storePacked(scope, values, roots, first, perThread, elementOf);
    },
  };
}

/**
 * Computes an element of each root, and writes it. Everything is read before anything is written, because a value may
 * be replaced in place.
 */
export function storeElements(
  scope: KernelScope,
  values: Values,
  roots: readonly number[],
  linear: string,
  emitter: Emitter,
  elementOf: ElementOf = known,
): void {
  for (const [root, element] of elementsOf(emitter, roots, linear, elementOf))
    storeElement(scope, values, root, linear, element, emitter);
}

function elementsOf(
  emitter: Emitter,
  roots: readonly number[],
  linear: string,
  elementOf: ElementOf,
): (readonly [root: number, element: string])[] {
  return roots.map((root) => {
    const element = elementOf(emitter, root, linear);
    emitter.keep(root, { linear }, element);
    return [root, element];
  });
}

function storeElement(
  { place }: KernelScope,
  values: Values,
  root: number,
  at: string,
  element: string,
  emitter: Emitter,
): void {
  const { write } = place(root);
  const { bytes, store } = storageOf[values.type(root).dtype];
  if (bytes === 8) {
    emitter.line(write(`${at} * 2u`, `${element}.x`));
    emitter.line(write(`${at} * 2u + 1u`, `${element}.y`));
  } else {
    emitter.line(write(at, store(element)));
  }
}

/**
 * Stores elements of fewer than 32 bits. One thread writes all elements of a word. The bits after the last element keep
 * their value.
 */
function storePacked(
  scope: KernelScope,
  values: Values,
  roots: readonly number[],
  first: string,
  perThread: number,
  elementOf: ElementOf,
): void {
  const { emitter, number, place } = scope;
  const packed = roots.filter((root) => storageOf[values.type(root).dtype].bytes < 4);
  for (const root of packed) {
    const words = perThread / (4 / storageOf[values.type(root).dtype].bytes);
    for (let word = 0; word < words; word++)
      emitter.line(`var w${root}_${word} = 0u; var m${root}_${word} = 0u;`);
  }
  for (let i = 0; i < perThread; i++) {
    const at = i === 0 ? first : emitter.let(`${first} + ${i}u`);
    const inner = emitter.inner();
    for (const [root, element] of elementsOf(inner, roots, at, elementOf)) {
      const { bytes, store } = storageOf[values.type(root).dtype];
      if (bytes >= 4) {
        storeElement(scope, values, root, at, element, inner);
      } else {
        const perWord = 4 / bytes;
        const [word, shift] = [Math.floor(i / perWord), (i % perWord) * 8 * bytes];
        inner.line(`w${root}_${word} |= ${store(element)} << ${shift}u;`);
        inner.line(`m${root}_${word} |= ${2 ** (8 * bytes) - 1}u << ${shift}u;`);
      }
    }
    emitter.line(`if (${at} < ${number(0)}) {`);
    emitter.line(inner.text);
    emitter.line('}');
  }
  for (const root of packed) {
    const perWord = 4 / storageOf[values.type(root).dtype].bytes;
    const { read, write } = place(root);
    for (let word = 0; word < perThread / perWord; word++) {
      const at = `${first} / ${perWord}u + ${word}u`;
      const [bits, mask] = [`w${root}_${word}`, `m${root}_${word}`];
      emitter.line(`if (${mask} == 0xffffffffu) { ${write(at, bits)} }`);
      const joined = write(at, `(${read(at)} & ~${mask}) | ${bits}`);
      emitter.line(`else if (${mask} != 0u) { ${joined} }`);
    }
  }
}
