import { ddp, fsdp, type Strategy, zero } from 'shardwise';

interface MemoryStrategy {
  readonly strategy: () => Strategy;
  /** Set if no rank builds the whole model. */
  readonly isConstructed?: true;
}

const mixedPrecision = { parameterDtype: 'bf16' } as const;

export const memoryStrategies = {
  ddp: { strategy: () => ddp() },
  'zero-1': { strategy: () => zero({ stage: 1 }) },
  'zero-2': { strategy: () => zero({ stage: 2 }) },
  'zero-3': { strategy: () => zero({ stage: 3 }), isConstructed: true },
  fsdp: { strategy: () => fsdp(), isConstructed: true },
  'zero-1 bf16': { strategy: () => zero({ stage: 1, mixedPrecision }) },
  'zero-2 bf16': { strategy: () => zero({ stage: 2, mixedPrecision }) },
  'zero-3 bf16': { strategy: () => zero({ stage: 3, mixedPrecision }), isConstructed: true },
  'fsdp bf16': { strategy: () => fsdp({ mixedPrecision }), isConstructed: true },
} as const satisfies Record<string, MemoryStrategy>;

export type MemoryStrategyName = keyof typeof memoryStrategies;

export function strategyOf(name: MemoryStrategyName): MemoryStrategy {
  return memoryStrategies[name];
}
