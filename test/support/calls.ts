import { ShardwiseError } from '@shardwise/core';
import { type Argument, type Call, optional, options } from './wrong-arguments.ts';

/** The call of a function. */
export const callOf = (call: (...given: never[]) => unknown, ...given: Argument[]): Call => ({
  call,
  takes: given,
});

export const construct = (type: object, ...given: Argument[]): Call => ({
  call: (...inputs) => typeof type === 'function' && Reflect.construct(type, inputs),
  takes: given,
});

/** The call of a method of an object that each call makes anew. */
export const methodOf = (make: () => object, name: string, ...given: Argument[]): Call => ({
  call: (...inputs) => {
    const of = make();
    return Reflect.apply(Reflect.get(of, name), of, inputs);
  },
  takes: given,
});

/** Options that may be left out. */
export const opt = (of: object = {}): Argument => optional(options(of));

export const isRefusal = (error: unknown): boolean => ShardwiseError.isInstance(error);

/** Calls it as it should be. */
export const callRight = ({ call, takes }: Call): unknown =>
  call(...(takes.map(({ given }) => given) as never[]));
