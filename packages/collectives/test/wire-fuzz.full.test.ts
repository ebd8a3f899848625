import { describe } from 'vitest';
import { fuzzParsers } from './wire-fuzz.ts';

describe('what a peer may send is refused with a typed error or read, and nothing else', () => {
  fuzzParsers(50_000);
});
