/** How queries of one rank come to the keys of the others. */
export const contextMethods = ['ring', 'allGather', 'ulysses', 'usp'] as const;

export type ContextMethod = (typeof contextMethods)[number];
