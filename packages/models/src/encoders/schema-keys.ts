import type { z } from 'zod';

/** Rules for the keys of a configuration, which schemas of several architectures contain. */
export type SchemaKeys<Config> = { readonly [Key in keyof Config]-?: z.ZodType<Config[Key]> };
