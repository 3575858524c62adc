# SPDX-License-Identifier: MIT
# The picture of bench_shares.sh.  Given: dir, out, rate, sizes, seconds.
set terminal svg size 800,360 font "sans-serif,12" background "white"
set output out
set multiplot layout 1,2 title "Shares of eight readers of one ".rate." limit, by block size"
set yrange [0:100]
set xrange [1:seconds]
set ytics 0,12.5,100 format "%.3g %%"
set xlabel "seconds"
set grid ytics front lc rgb "#ffffff" lw 1 dt 3
set style fill solid 0.9 noborder
set key off
array color[8] = ["#4e79a7", "#f28e2b", "#e15759", "#76b7b2", "#59a14f", "#edc948", "#b07aa1", "#9c755f"]
# The sum of the first n shares.
total(n) = (n < 1 ? 0 : sum [i=2:n+1] column(i))
set rmargin 2
set title "ratefs"
plot for [i=8:1:-1] dir."/ratefs.dat" using 1:(total(i)) with filledcurves y1=0 lc rgb color[i]
set title "bindfs"
set format y ""
set rmargin 10
set key outside right center reverse Left samplen 1 title "blocks"
plot for [i=8:1:-1] dir."/bindfs.dat" using 1:(total(i)) with filledcurves y1=0 lc rgb color[i] title word(sizes, i)
unset multiplot
