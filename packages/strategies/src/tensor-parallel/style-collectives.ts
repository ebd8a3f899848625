import {
  collectivesOfMove,
  type DType,
  dtypes,
  elementCount,
  formatAxisLayout,
  moveOver,
} from '@shardwise/core/extend';
import type {
  ActivationChange,
  ModuleSpec,
  ParallelStyle,
  StyleCollective,
} from './parallel-style.ts';
import { moduleWithin } from './style-shardings.ts';

/**
 * Returns the messages that a style adds to a module in one step whose batch has `tokens` tokens on a rank: those of
 * activations, forward and backward, and those that sum gradients.
 */
export function styleCollectives(
  style: ParallelStyle,
  module: ModuleSpec,
  tokens: number,
): readonly StyleCollective[] {
  const { inputs, output, gatherAgain = false, modules = {} } = style;
  const sizes = style.kind.sizes?.(module) ?? null;
  const { path } = module;
  const message = (
    change: ActivationChange | null | undefined,
    features: number | undefined,
    again: boolean,
  ): StyleCollective[] => {
    if (change === null || change === undefined) return [];
    const count = change.features ?? features;
    if (count === undefined) return [];
    const dtype = change.features === undefined ? (sizes?.dtype ?? 'f32') : 'f32';
    return activationCollectives(change, { path, elements: tokens * count, dtype, again });
  };
  return [
    ...(inputs['forward'] ?? []).flatMap((change) => message(change, sizes?.input, gatherAgain)),
    ...message(output, sizes?.output, false),
    ...summedGradients(style, module),
    ...(style.collectives?.(module, tokens) ?? []),
    ...Object.entries(modules).flatMap(([name, each]) =>
      styleCollectives(each, moduleWithin(module, name), tokens),
    ),
  ];
}

interface Activation {
  /** The path of the module that has the activation. */
  readonly path: string;
  /** The number of elements of the whole activation. */
  readonly elements: number;
  readonly dtype: DType;
  /** Whether the backward pass repeats the collective of the forward pass. */
  readonly again: boolean;
}

/** Returns the collectives of redistributing an activation. Their bytes are those of the whole activation. */
function activationCollectives(
  { from, to }: ActivationChange,
  { path, elements, dtype, again }: Activation,
): StyleCollective[] {
  const found = collectivesOfMove(moveOver('', from, to));
  const redistribution = { module: path, from: formatAxisLayout(from), to: formatAxisLayout(to) };
  const bytes = elements * dtypes[dtype].bytes;
  const passes = [
    ['forward', found.forward],
    ['backward', again ? found.forward : null],
    ['backward', found.backward],
  ] as const;
  return passes.flatMap(([when, operation]) =>
    operation === null ? [] : [{ operation, when, bytes, redistribution }],
  );
}

/** Returns the all-reduces that sum the gradients of parameters which all ranks have and use each in its own way. */
function summedGradients(
  { parameters: layouts, others = 'invariant' }: ParallelStyle,
  { parameters, cut }: ModuleSpec,
): StyleCollective[] {
  const named = Object.entries(layouts).flatMap(([name, layout]) =>
    layout === 'replicate' ? (parameters.get(name) ?? []) : [],
  );
  const rest =
    others === 'invariant'
      ? []
      : [...parameters].flatMap(([name, parameter]) =>
          name in layouts || (others === 'uncut' && cut?.has(name) === true) ? [] : parameter,
        );
  return [...named, ...rest]
    .filter(({ requiresGrad }) => requiresGrad)
    .map(({ shape, dtype }) => ({
      operation: 'allReduce',
      when: 'backward',
      bytes: elementCount(shape) * dtypes[dtype].bytes,
    }));
}
