/** Instruction sets, the newest first. Each is used together with those behind it. */
export const instructionSets = ['AMX-BF16', 'AVX512-BF16', 'AVX-512', 'AVX2'] as const;
export type InstructionSet = (typeof instructionSets)[number];
