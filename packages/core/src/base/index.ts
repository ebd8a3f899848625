// The entry point for small functions that core, the backends and the process groups share. Authors may use them, too.
export * from './attention-dims.ts';
export { checkOptions, withDefaults } from './check-options.ts';
export { nextTurn, onNextTurn } from './next-turn.ts';
export * as option from './option-rules.ts';
export type { OptionRule, OptionRules, RequiredRule } from './option-rules.ts';
export * from './place-lifetimes.ts';
export { ProtobufWriter } from './protobuf-writer.ts';
export { requireVersion } from './require-version.ts';
export { elementCount, formatShape, sameShape } from './shape.ts';
export { rejectDegenerateSizes } from './degenerate-sizes.ts';
export type { SizeFormula } from './size-formula.ts';
export { Sized } from './sized.ts';
export * from './stack.ts';
