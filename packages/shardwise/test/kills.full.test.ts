import { runsThatAreDisturbed } from './kills.ts';

runsThatAreDisturbed({ onOneHost: 3, onTwoHosts: 2, timeoutMs: 120_000 });
