import { runsThatAreDisturbed } from './kills.ts';

runsThatAreDisturbed({ onOneHost: 50, onTwoHosts: 20, timeoutMs: 1_200_000 });
