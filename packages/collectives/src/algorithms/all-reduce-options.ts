import { plainReducer, type Reducer } from '../reduce/reducer.ts';

export interface AllReduceOptions {
  readonly reducer: Reducer;
  /** Nothing is written to the buffer before this settles; what this rank contributes goes at once. */
  readonly agreed: Promise<void>;
}

export const plain: AllReduceOptions = { reducer: plainReducer, agreed: Promise.resolve() };
