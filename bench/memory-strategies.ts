import { dist } from 'shardwise';

interface MemoryStrategy {
  readonly strategy: () => dist.Strategy;
  /** Set if no rank builds the whole model. */
  readonly isConstructed?: true;
}

const mixedPrecision = { parameterDtype: 'bf16' } as const;

export const memoryStrategies = {
  ddp: { strategy: () => dist.ddp() },
  'zero-1': { strategy: () => dist.zero({ stage: 1 }) },
  'zero-2': { strategy: () => dist.zero({ stage: 2 }) },
  'zero-3': { strategy: () => dist.zero({ stage: 3 }), isConstructed: true },
  fsdp: { strategy: () => dist.fsdp(), isConstructed: true },
  'zero-1 bf16': { strategy: () => dist.zero({ stage: 1, mixedPrecision }) },
  'zero-2 bf16': { strategy: () => dist.zero({ stage: 2, mixedPrecision }) },
  'zero-3 bf16': { strategy: () => dist.zero({ stage: 3, mixedPrecision }), isConstructed: true },
  'fsdp bf16': { strategy: () => dist.fsdp({ mixedPrecision }), isConstructed: true },
} as const satisfies Record<string, MemoryStrategy>;

export type MemoryStrategyName = keyof typeof memoryStrategies;

export function strategyOf(name: MemoryStrategyName): MemoryStrategy {
  return memoryStrategies[name];
}

export function isMemoryStrategy(name: string): name is MemoryStrategyName {
  return Object.hasOwn(memoryStrategies, name);
}
